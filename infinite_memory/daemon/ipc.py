"""Where a home's daemon and its clients meet, and how they greet. Standard library only: the thin client imports this.

The daemon writes ``daemon.json`` (mode 0600) once it listens: its process id, version and address. The Unix socket is in the home,
mode 0600; if the home's path is too long for one, it is in the user's runtime directory. By option, and where Unix sockets do not
exist, the address is a loopback port with a token that neither side ever sends: each proves that it knows it (`proofs`).

A client authenticates the daemon before it sends anything: the socket and its directory belong to this user and the peer runs as this
user, or the daemon's lock is held and the process at the port has given the proof.

A client starts with one line of JSON, the greeting, and gets one line back. The bytes after that belong to the session, except
control lines from the daemon, which start with a record separator (0x1e) and never reach the client program.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infinite_memory.errors import DaemonError
from infinite_memory.paths import check_home, check_socket, make_socket_folder, place_of_socket, remove_socket_folder
from infinite_memory.platform_files import check_regular, lock_file, open_regular, replace_file

CONTROL = b"\x1e"  # starts a control line; JSON never does
PROTOCOL = 1  # version of the greeting; raised when an older side would misunderstand
SOCKET_NAME = "daemon.sock"
BACKLOG = 256  # clients that may connect at the same moment
GREETING_BYTES = 1 << 20  # longest greeting or answer to one: it carries the client's settings
RECORD_BYTES = 64 * 1024  # of `daemon.json`; a longer file is not one of ours
CHALLENGE_BYTES = 1024  # longest line of a proof, from an unauthenticated peer
_HOST = "127.0.0.1"
_LOCK_AGAIN_S = 0.02  # pause before a lock is retried

Json = dict[str, Any]


def record_path(home: Path) -> Path:
    """Return the file that says where the daemon listens."""
    return home / "daemon.json"


def pid_path(home: Path) -> Path:
    """Return the file with the daemon's process id only, for scripts."""
    return home / "daemon.pid"


def lock_path(home: Path) -> Path:
    """Return the file that the daemon keeps locked while it runs."""
    return home / "daemon.lock"


def start_lock_path(home: Path) -> Path:
    """Return the file that a client keeps locked while it starts a daemon."""
    return home / "daemon.starting"


def socket_path(home: Path) -> Path:
    """Return the path of the Unix socket of *home*; clients use the daemon's record, as their environment may differ.

    Raises:
        OSError: no path is short enough.
    """
    return place_of_socket(home, SOCKET_NAME) / SOCKET_NAME


def listen(home: Path, transport: str) -> tuple[socket.socket, Json]:
    """Open the daemon's listening socket; return it with the record for `write_record`.

    The caller holds the daemon's lock, so an existing socket file is stale.
    """
    if transport == "tcp" or not hasattr(socket, "AF_UNIX"):
        import secrets

        # The protocol is named, or asyncio leaves Nagle's algorithm on.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind((_HOST, 0))
        listening.listen(BACKLOG)
        port: int = listening.getsockname()[1]
        return listening, {"port": port, "token": secrets.token_urlsafe(32), "challenge": PROTOCOL}
    path = socket_path(home)
    _make_private(path.parent, home)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(BACKLOG)
    return listening, {"socket": str(path)}


def _make_private(folder: Path, home: Path) -> None:
    if folder == home:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    else:
        make_socket_folder(folder)


def write_record(home: Path, record: Json) -> None:
    """Write the daemon's record atomically."""
    temporary = record_path(home).with_suffix(".tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file)
    replace_file(temporary, record_path(home))
    with contextlib.suppress(OSError):  # used by scripts only
        check_regular(pid_path(home))
        pid_path(home).write_text(f"{record['pid']}\n", "utf-8")


def mend_record(home: Path, record: Json) -> None:
    """Rewrite the running daemon's record if it is unreadable: no client would find the daemon."""
    if read_record(home) is None:
        with contextlib.suppress(OSError):  # a full disk, no free descriptor: it is retried
            write_record(home, record)


def read_record(home: Path) -> Json | None:
    """Read the daemon's record; None if it is missing, unreadable or another user's."""
    try:
        with open_regular(record_path(home), follow_links=False) as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            record = json.loads(file.read(RECORD_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def remove_stale_record(home: Path) -> None:
    """Remove the files of a crashed daemon; the caller holds the daemon's lock, so none of them is in use."""
    for path in (record_path(home), pid_path(home)):
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def is_reachable(home: Path, record: Json) -> bool:
    """True if clients still find the daemon of *record*; False if its home was removed or moved, or another daemon took over."""
    try:
        record_path(home).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    current = read_record(home)
    # None: it cannot be read, with no free descriptor, say.
    return current is None or current.get("pid") == record["pid"]


def remove_record(home: Path, record: Json) -> None:
    """Remove the record and the socket if they are still those of *record*."""
    if (read_record(home) or {}).get("pid") == record["pid"]:
        for path in (record_path(home), pid_path(home), Path(record["socket"]) if "socket" in record else None):
            if path is not None:
                with contextlib.suppress(OSError):
                    path.unlink()
        if "socket" in record and (folder := Path(record["socket"]).parent) != home:
            remove_socket_folder(folder)


def connect(home: Path, timeout_s: float) -> socket.socket | None:
    """Connect to the home's daemon and authenticate it; None if nothing or another program listens.

    Raises:
        DaemonError: a daemon of an older version runs that cannot prove its identity.
    """
    record = read_record(home)
    if record is None or not _is_own_home(home):
        return None
    try:
        if "socket" in record:
            check_socket(Path(record["socket"]), home)
            return _connect_unix(record["socket"], timeout_s)
        port, token = record["port"], record["token"]
        if not (isinstance(port, int) and isinstance(token, str)) or not is_held(lock_path(home)):
            return None  # a port may belong to another program by now
    except (OSError, LookupError, TypeError, ValueError, AttributeError):  # or the record is not one of ours
        return None
    if record.get("challenge") != PROTOCOL:
        raise DaemonError(
            f"the daemon of version {record.get('version')} that runs for {home} cannot prove who it is over TCP;"
            f" end it (process {record.get('pid')}), then try again"
        )
    return _connect_tcp(port, token, timeout_s)


def _is_own_home(home: Path) -> bool:
    try:
        check_home(home)
    except OSError:
        return False
    return True


def _connect_unix(path: str, timeout_s: float) -> socket.socket | None:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    try:
        _connect(link, path, timeout_s)
        if is_peer_own(link):
            return link
    except OSError:
        pass
    link.close()
    return None


def _connect_tcp(port: int, token: str, timeout_s: float) -> socket.socket | None:
    link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    try:
        _connect(link, (_HOST, port), timeout_s)
        if _prove(link, token, port):
            return link
    except (OSError, OverflowError, ValueError, RecursionError):
        pass
    link.close()
    return None


def _prove(link: socket.socket, token: str, port: int) -> bool:
    """Have the daemon prove that it knows the token, then prove it in turn; False if the daemon fails."""
    from infinite_memory import proofs  # here: few clients need it

    nonce, address = proofs.make_nonce(), proofs.format_address(_HOST, port)
    link.sendall(json.dumps({"challenge": PROTOCOL, "nonce": nonce}).encode() + b"\n")
    answer = json.loads(read_line(link, CHALLENGE_BYTES) or b"null")
    if not isinstance(answer, dict) or not proofs.is_nonce(answer.get("nonce")):
        return False
    nonces = (nonce, answer["nonce"])
    if not proofs.is_signed(answer.get("proof"), token, proofs.BY_DAEMON, address, *nonces):
        return False
    link.sendall(proofs.sign(token, proofs.BY_CLIENT, address, *nonces).encode() + b"\n")
    return True


def peer_uid(link: socket.socket) -> int | None:
    """Return the user id of the peer of a Unix socket; None if the system does not report it."""
    if hasattr(socket, "SO_PEERCRED"):
        return int.from_bytes(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
    if sys.platform == "darwin":  # struct xucred: version, uid; level 0, LOCAL_PEERCRED
        return int.from_bytes(link.getsockopt(0, 1, 76)[4:8], sys.byteorder)
    return None


def is_peer_own(link: socket.socket, *, or_root: bool = False) -> bool:
    """True if the peer of a Unix socket runs as this user, where the system reports it."""
    uid = peer_uid(link)
    return uid is None or uid == os.geteuid() or (or_root and uid == 0)


def _connect(link: socket.socket, address: Any, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            link.connect(address)
        except BlockingIOError:  # the queue of connecting clients is full
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def read_line(link: socket.socket, limit: int = GREETING_BYTES) -> bytes:
    """Read one line from a socket, byte by byte so that nothing after it is consumed.

    Returns:
        The line without its line break; b"" if the peer closed first, or it is longer than *limit*.

    Raises:
        OSError: the connection broke or timed out.
    """
    line = bytearray()
    while len(line) < limit:
        byte = link.recv(1)
        if not byte:
            return b""
        if byte == b"\n":
            return bytes(line)
        line += byte
    return b""


@contextlib.contextmanager
def locked(path: Path, *, wait: bool, patience_s: float = 0.0) -> Iterator[bool]:
    """Hold an exclusive lock on a file; yield whether it was acquired. It is released when the process exits, in whatever way.

    Args:
        wait: Whether to wait without a timeout.
        patience_s: How long to retry without *wait*.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        end = time.monotonic() + patience_s
        while not (got := lock_file(descriptor, wait=wait)) and time.monotonic() < end:
            time.sleep(_LOCK_AGAIN_S)
        yield got
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """True if a process holds the lock on a file."""
    if not path.exists():
        return False
    with locked(path, wait=False) as free:
        return not free
