"""Definitions of all settings: section, default, bounds, and the description for documents and errors.

A setting either applies to the daemon (model, MongoDB, ports) or is marked ``per_session``: it then belongs to one client and is sent
with its connection. `config` loads and validates them; ``config/infinite-memory.toml`` documents every default, and a test keeps the
two in sync. A contract's own settings are in its ``spec.py``.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern that a string must match, and its description."""

    pattern: re.Pattern[str]
    expected: str


# Reserved: the words with a special meaning in `store.scope_cache`.
SCOPE_NAME = Form(
    re.compile(r"\s*(?!(?:all|null)\s*$)\S.{0,255}\s*", re.IGNORECASE | re.DOTALL),
    "a scope's name of 1 to 256 characters; ALL and null are reserved",
)
RATE = Form(re.compile(r"[1-9]\d{0,8}/(second|minute|hour|day)"), "a number of requests and a time, as 100/second")
PROXIES = Form(
    re.compile(r"(\s*(unix|127(\.\d{1,3}){3})\s*(,(?=.)|$))*"),
    "unix (connections over the Unix socket) or addresses of loopback such as 127.0.0.1, commas between; HTTP has no others",
)
_ORIGIN = r"https?://(\[[0-9a-f:]+\]|[^\s/?#@,:\[\]]+)(:\d{1,5})?"
ORIGINS = Form(
    re.compile(rf"(\s*{_ORIGIN}\s*(,|$))*\s*", re.IGNORECASE),
    "origins such as https://memory.example.org:8443, without a path, commas between",
)
DATABASE_NAME = Form(
    re.compile(r"[^\s/\\.\"$*<>:|?\x00]{1,63}"),
    'a name of 1 to 63 characters without blanks and / \\ . " $ * < > : | ?',
)
CLOCK_TIME = Form(re.compile(r"([01]\d|2[0-3]):[0-5]\d"), "a time of day such as 03:00")


MONGODB_URI = Form(
    re.compile(r"mongodb(\+srv)?://([^@/?#]*@)?[^@/?#]+(/[^@?#]*)?(\?.*)?", re.IGNORECASE),
    "a MongoDB URI such as mongodb://host:27017; in a name or password @ : / ? # % are written %40 %3A %2F %3F %23 %25",
)


MILVUS_URI = Form(
    re.compile(r"https?://([^@/?#]*@)?[^@/?#]+(/[^@?#]*)?|[^\x00-\x1f]+\.db", re.IGNORECASE),
    "the address of a Milvus server such as http://host:19530, or the path of a file ending in .db",
)


def split_list(text: str) -> list[str]:
    """Return the items of a comma-separated setting."""
    return [item.strip() for item in text.split(",") if item.strip()]


def _setting(default: Any, about: str, **checks: Any) -> Any:
    """Define a setting. ``secret=True`` redacts its value wherever it is shown, and in errors and logs."""
    return dataclasses.field(default=default, metadata={"about": about, **checks})


@dataclass(frozen=True, slots=True)
class MongodbSettings:
    """The MongoDB that stores the documents."""

    uri: str | None = _setting(
        None, "A MongoDB server of yours; without it InfiniteMemory runs its own", form=MONGODB_URI, secret=True
    )
    database: str = _setting("infinite_memory", "Name of the database", form=DATABASE_NAME)
    driver: str = _setting("pymongo", "Client library", choices=("pymongo", "motor"))
    binary: str | None = _setting(
        None, "Path of the mongod to run; default: the one on PATH, then the installed package's"
    )
    import_hosts: str = _setting(
        "", "Hosts, with commas, from which an older database may be imported besides this machine and `mongodb.uri`"
    )
    cache_mb: int = _setting(256, "Cache of our own MongoDB, in MiB", low=256)
    timeout_s: float = _setting(5.0, "How long a request waits for a server that does not answer, in seconds", low=0.1)


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """The embedding model."""

    model: str = _setting("all-MiniLM-L6-v2", "Name or path of the embedding model")
    truncate_dim: int | None = _setting(None, "Cut vectors to this many dimensions", low=8)
    precision: str = _setting("fp32", "Arithmetic of the model", choices=("fp32", "int8"))
    prepare: bool = _setting(
        True, "Whether the models that come with it are fetched or written in the background where they are missing"
    )
    second_model: str = _setting(
        "auto",
        "When a second model, which reads other languages than English, is used: from the first such text or question on, always, or"
        " never",
        choices=("auto", "always", "off"),
    )


@dataclass(frozen=True, slots=True)
class ScopesSettings:
    """The scope of memories if a request names none."""

    default: str = _setting("Global", "Scope that is active when a session starts", per_session=True, form=SCOPE_NAME)
    auto_create: bool = _setting(True, "Whether storing into an unknown scope creates it", per_session=True)


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Parsing of time expressions."""

    zone: str | None = _setting(None, "IANA name of your time zone; default: the system's", per_session=True)


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """Ranking of results, and how long a request may wait."""

    wait_s: float = _setting(20.0, "Longest wait for a model or index that is still loading, in seconds", low=0.0)
    model_wait_s: float = _setting(
        2.0, "How long a recall waits for a loading model before it goes by words alone, in seconds", low=0.0
    )
    reranker: str | None = _setting(
        None, "Name or path of a cross-encoder that orders the best hits anew; needs the sentence-transformers extra"
    )


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Maximum sizes of input."""

    line_bytes: int = _setting(16 * MIB, "One request line, in bytes", low=1024, per_session=True)
    text_bytes: int = _setting(MIB, "The text of a memory, in bytes of UTF-8", low=1, per_session=True)
    tags: int = _setting(100, "Tags of a memory", low=1, high=2000, per_session=True)  # `models.MAX_MEMORY_TAGS`
    tag_chars: int = _setting(200, "One tag, in characters", low=1, per_session=True)
    metadata_bytes: int = _setting(65536, "Free metadata of a memory, in bytes of JSON", low=2, per_session=True)
    metadata_depth: int = _setting(20, "Nesting of free metadata, in levels", low=1, high=90, per_session=True)
    query_chars: int = _setting(10_000, "A query, in characters", low=1, per_session=True)
    top_k: int = _setting(1000, "Results of one request", low=1, per_session=True)
    reply_bytes: int = _setting(
        8 * MIB,
        "An answer that is never cut (memory-search), in bytes; above it a filter is asked for",
        low=1024,
        per_session=True,
    )


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """How often derived files are saved."""

    save_every_s: float = _setting(60.0, "Longest time that a change stays out of the saved files, in seconds", low=1.0)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The engine of the vector index."""

    engine: str = _setting(
        "faiss", "faiss: files in the home; milvus: a server that machines may share", choices=("faiss", "milvus")
    )
    uri: str | None = _setting(
        None, "Where Milvus is, as http://host:19530, or a file ending in .db for its embedded form", form=MILVUS_URI,
        secret=True,
    )  # fmt: skip
    token: str | None = _setting(None, "Token, or name:password, for Milvus", secret=True)
    timeout_s: float = _setting(
        5.0, "How long a call of Milvus may take, in seconds; one that is silent is noticed after 2", low=0.1
    )


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What is removed, and when."""

    purge_deleted_days: int = _setting(30, "Days after which soft-deleted memories are permanently removed", low=1)
    purge_pruned_days: int | None = _setting(
        None, "Days after which what `prune` hid is permanently removed; default: never", low=1
    )
    max_age_days: int | None = _setting(None, "Days after which `prune` hides a memory; default: never", low=1)
    max_memories: int | None = _setting(None, "Memories of a scope that `prune` leaves; default: all", low=1)
    max_text_mb: float | None = _setting(None, "Texts of a scope that `prune` leaves, in MiB; default: all", low=0.001)
    deduplicate: bool = _setting(False, "Whether equal texts are merged each night; restore_memory undoes it")
    summarize: bool = _setting(False, "Whether old conversations get a summary each night")
    summary_hides: bool = _setting(False, "Whether `summarize` hides what it summed up; restore_memory undoes it")
    summary_by_model: bool = _setting(
        False, "Whether `summarize` has the model of `model` write; otherwise it chooses sentences"
    )


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """When scheduled backups are made, how many are kept, and how they are encrypted."""

    time: str | None = _setting("03:00", "Time of the daily backup, HH:MM in your zone; empty: none", form=CLOCK_TIME)
    keep_daily: int = _setting(7, "Days whose newest scheduled backup is kept", low=1)
    keep_weekly: int = _setting(4, "Weeks whose newest scheduled backup is kept", low=0)
    folder: str | None = _setting(None, "Where backups go, seen from the home; default: backups")
    passphrase_file: str | None = _setting(None, "File whose first line is the passphrase that locks backups")
    key_file: str | None = _setting(None, "File whose content is the key that locks backups")
    max_unpacked_mb: int | None = _setting(
        None, "What a backup may unpack into, in MiB; default: 1000 times its size, and at least 256", low=1
    )


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """The folders that memories may be imported from."""

    folders: str | None = _setting(
        None,
        "Folders, with commas or colons (Windows: semicolons) between, from which assistants and scripts may import; the command "
        "line may name any path; default: imports in the home",
    )


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """What the assistants' hooks store."""

    enabled: bool = _setting(True, "Whether hooks store what is said in sessions", per_session=True)
    digests: bool = _setting(
        True, "Whether each session is given a digest, made of its own sentences", per_session=True
    )
    digest_by_model: bool = _setting(
        False,
        "Whether the model of `model.api` then writes the digest, in the background; it is sent the session",
        per_session=True,
    )


@dataclass(frozen=True, slots=True)
class HooksSettings:
    """What the assistants' hooks recall into a session."""

    start_tokens: int = _setting(
        1500, "Most tokens that a session is given at its start; 0: none", low=0, high=3000, per_session=True
    )
    prompt_tokens: int = _setting(
        600, "Most tokens that are added to a prompt; 0: none", low=0, high=3000, per_session=True
    )
    min_confidence: float = _setting(
        0.7, "Least probability that what is added to a prompt belongs to it", low=0.0, high=1.0, per_session=True
    )


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """Lifetime and transport of the daemon."""

    idle_exit_s: float = _setting(900.0, "Seconds after its last client when the daemon leaves; 0: never", low=0.0)
    transport: str = _setting("unix", "How clients reach it; tcp is loopback with a token", choices=("unix", "tcp"))


@dataclass(frozen=True, slots=True)
class McpSettings:
    """What is offered to MCP clients."""

    tools: str = _setting("all", "Which tools are offered; a client pays for each with context",
                          choices=("core", "all"), per_session=True)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP API, and MCP over HTTP, on loopback, with tokens."""

    port: int | None = _setting(
        None, "Port to listen on; without it there is no HTTP; 0: a free one", low=0, high=65535
    )
    origins: str = _setting("", "Origins of web pages that may call, besides loopback; commas between", form=ORIGINS)
    trusted_proxies: str = _setting(
        "",
        "Proxies before the page whose X-Forwarded-Proto and -Host count: unix, 127.0.0.1; commas between",
        form=PROXIES,
    )
    session_idle_s: float = _setting(1800.0, "Seconds after which a session that nobody uses ends", low=1.0)
    rate: str | None = _setting("6000/minute", "Most requests of one token, as 100/second; empty: no limit", form=RATE)
    concurrent: int = _setting(
        32, "Requests of one token that are worked on at the same time; others wait their turn", low=1
    )
    connections: int = _setting(
        256, "Connections that may be open; never more than a quarter of the files that the daemon may open", low=8
    )

    @property
    def named_origins(self) -> list[str]:
        """The origins as a list."""
        return split_list(self.origins)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A language model for the AgentMem contract's chat and facts; without it nothing is generated."""

    api: str | None = _setting(None, "What the server speaks", choices=("openai", "anthropic"))
    url: str | None = _setting(None, "Address; openai: with its version, as http://127.0.0.1:11434/v1", secret=True)
    name: str | None = _setting(None, "Name of the model at that server")
    key_file: str | None = _setting(None, "File whose first line is the key")
    timeout_s: float = _setting(30.0, "How long an answer may take, in seconds", low=0.1)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Logging."""

    level: str = _setting("INFO", "Least severity", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    file_mb: int = _setting(5, "Size of one log file, in MiB; four are kept", low=1)
