"""A way to a server that can be cut and opened again, as a network does it."""

from __future__ import annotations

import contextlib
import socket
import threading


class TcpGate:
    """Passes connections to a port on; cut, it has none and takes none."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._flows = threading.Event()
        self._flows.set()
        self.port = 0

    def open(self) -> None:
        """Take connections, always on the same port."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        self.port, self._listener = listener.getsockname()[1], listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Cut it for good."""
        self.speak()
        self.cut()

    def fall_silent(self) -> None:
        """Keep and take connections, and pass nothing on, as a network does that loses every packet."""
        self._flows.clear()

    def speak(self) -> None:
        """Pass on again, first what was held back."""
        self._flows.set()

    def cut(self) -> None:
        """End all connections and take no more."""
        listener, self._listener = self._listener, None
        with self._lock:
            sockets = [*self._open, *([listener] if listener else [])]
            self._open.clear()
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # nobody is there: who came is sent away, the next one may be luckier
                    near.close()
                    continue
                with self._lock:
                    self._open |= {near, far}
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._lock:
            self._open -= {source, target}
