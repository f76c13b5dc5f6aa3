"""Builds every part from a `Config`, starts them in order and stops them in reverse. Only this file knows the implementations.

Starting waits for nothing: MongoDB boots, the heavy libraries are imported and the model loads side by side while bad input,
`ping` and `help` are answered already.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self
from zoneinfo import ZoneInfo

from infinite_memory.config import Config, EmbeddingSettings
from infinite_memory.contracts.native import NativeContract, Session
from infinite_memory.contracts.native.server import NativeServer
from infinite_memory.contracts.siblings import NATIVE, Surroundings, open_sibling
from infinite_memory.engine import Engine
from infinite_memory.engine.clock import Clock, system_clock
from infinite_memory.engine.embeddings import Embeddings
from infinite_memory.engine.index import Index
from infinite_memory.engine.parts import Parts
from infinite_memory.engine.scopes import ScopeBook
from infinite_memory.engine.text_feed import TextFeed
from infinite_memory.engine.uses import UseCounter
from infinite_memory.engine.watch import Watch
from infinite_memory.errors import ConfigError
from infinite_memory.home import Home
from infinite_memory.lifecycle.jobs import Jobs
from infinite_memory.protocols.mcp import McpSession
from infinite_memory.store.mongod import LocalMongo

if TYPE_CHECKING:
    from infinite_memory.embedding.base import Embedder
    from infinite_memory.sidecar.base import SidecarFiles, TextFiles
    from infinite_memory.store.base import Store

log = logging.getLogger(__name__)


class App(AbstractAsyncContextManager["App"]):
    """One home's memory, running. Used from one event loop."""

    def __init__(self, config: Config, home: Home, clock: Clock = system_clock) -> None:
        self.config, self.home, self._clock = config, home, clock
        self.mongod = None if config.mongodb.uri else self._local_mongo()
        self._building: asyncio.Task[Engine] | None = None
        self.watch = Watch(self.engine)
        self.jobs: Jobs | None = None

    async def __aenter__(self) -> Self:
        self.home.make()
        if self.mongod is not None:
            self._booting = asyncio.create_task(_quietly(self.mongod), name="mongod")
        self._building = asyncio.create_task(self._build(), name="build")
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._close_parts()
        finally:
            if self.mongod is not None:
                await self.mongod.stop()  # whatever went wrong before: nothing of ours is left running

    async def _close_parts(self) -> None:
        assert self._building is not None
        await asyncio.gather(self._building, return_exceptions=True)
        self.watch.close()
        if self.jobs is not None:
            await self.jobs.close()
        if (engine := self.built_engine()) is not None:
            if engine.parts.uses is not None:
                await engine.parts.uses.close()
            await engine.parts.index.close()
            await engine.parts.embeddings.close()
            await engine.parts.store.close()

    async def engine(self) -> Engine:
        """Give the engine once it is built; its methods wait for what they need themselves."""
        assert self._building is not None
        return await asyncio.shield(self._building)

    def built_engine(self) -> Engine | None:
        """Give the engine if it is built already."""
        task = self._building
        built = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return task.result() if built and task is not None else None

    def contract(self, session: Session) -> NativeContract:
        """Begin one client's conversation."""
        return NativeContract(self.engine, session, self._clock)

    def mcp(self, session: Session) -> McpSession:
        """Begin one client's conversation by MCP."""
        return McpSession(NativeServer(self.contract, session, self.watch, session.mcp_tools))

    def speak(
        self, contract: str, session: Session, environ: Mapping[str, str], options: Mapping[str, str]
    ) -> McpSession:
        """Begin one client's conversation in any contract; *environ* and *options* are the client's.

        Raises:
            ConfigError: there is no such contract, or a variable or option is wrong.
        """
        if contract == NATIVE:
            return self.mcp(session)
        surroundings = Surroundings(
            self.engine, session, self.watch, self.home.path, environ, options, self.config.model
        )
        return McpSession(open_sibling(contract, surroundings))

    async def _build(self) -> Engine:
        embedder, files, text_files, store = await asyncio.to_thread(self._open_parts)
        config = self.config
        embeddings = Embeddings(embedder, config.recall.wait_s)
        scopes = ScopeBook(store, self._clock)
        index = Index(
            store, scopes, embeddings, files, TextFeed(store, text_files),
            wait_s=config.recall.wait_s, save_every_s=config.sidecar.save_every_s,
        )  # fmt: skip
        index.on_change = self.watch.note
        embeddings.start()
        index.start()
        reranker = None
        if config.recall.reranker:
            from infinite_memory.embedding.reranker import Reranker

            reranker = Reranker(config.recall.reranker)
        parts = Parts(
            store, index, embeddings, scopes, config, self._clock, self._backup_folder(), reranker,
            UseCounter(store, self._clock),
        )  # fmt: skip
        engine = Engine(parts)
        self.jobs = Jobs(engine, find_zone(config.time.zone, os.environ))
        self.jobs.start()
        return engine

    def _open_parts(self) -> tuple[Embedder, SidecarFiles, TextFiles, Store]:
        """Import what is heavy; in a thread, so that nobody waits for it who does not need it."""
        from infinite_memory.embedding.factory import open_embedder
        from infinite_memory.sidecar.saved import FaissSidecarFiles
        from infinite_memory.sidecar.text_files import TantivyTextFiles
        from infinite_memory.store.mongo import MongoStore

        settings, mongodb = self.config.embedding, self.config.mongodb
        store = MongoStore(
            mongodb.uri or self._ensure_mongod,
            database=mongodb.database,
            driver=mongodb.driver,
            timeout_s=mongodb.timeout_s,
        )
        embedder = open_embedder(settings.model, truncate_dim=settings.truncate_dim, precision=settings.precision)
        sidecars = self.home.sidecars
        return embedder, FaissSidecarFiles(sidecars), TantivyTextFiles(sidecars / "text"), store

    def _backup_folder(self) -> Path:
        named = self.config.backup.folder
        return Path(named).expanduser().absolute() if named else self.home.backups

    async def _ensure_mongod(self) -> str:
        assert self.mongod is not None
        return await self.mongod.ensure()

    def _local_mongo(self) -> LocalMongo:
        settings = self.config.mongodb
        return LocalMongo(
            self.home.path,
            log_dir=self.home.logs,
            binary=Path(settings.binary).expanduser() if settings.binary else None,
            cache_mb=settings.cache_mb,
        )


def check_model(config: Config) -> None:
    """Refuse what the model cannot give; loads no weights, and looks only where more than the model's name is set.

    Raises:
        ConfigError: ``embedding.truncate_dim`` or ``embedding.precision`` does not fit the model.
    """
    settings = config.embedding
    if settings != EmbeddingSettings(settings.model):
        from infinite_memory.embedding.factory import open_embedder

        open_embedder(settings.model, truncate_dim=settings.truncate_dim, precision=settings.precision)


async def _quietly(mongod: LocalMongo) -> None:
    """Boot MongoDB ahead of the store, which asks again and tells what fails."""
    await asyncio.gather(mongod.ensure(), return_exceptions=True)


def new_session(config: Config, environ: Mapping[str, str]) -> Session:
    """Make what belongs to one client from its settings and environment."""
    return Session(
        active_scope=config.scopes.default,
        zone=find_zone(config.time.zone, environ),
        limits=config.limits,
        auto_create=config.scopes.auto_create,
        mcp_tools=config.mcp.tools,
        laravel=config.laravel,
    )


def find_zone(name: str | None, environ: Mapping[str, str]) -> ZoneInfo:
    """Give the user's time zone: the one named, else the one of *environ* (TZ), else the system's.

    Raises:
        ConfigError: the one named does not exist.
    """
    if name is None:
        name = environ.get("TZ", "").removeprefix(":") or None
        if name is None or os.sep in name[:1]:
            return _system_zone()
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            return _system_zone()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(f"time.zone = {name!r} is not an IANA time zone name such as Europe/Berlin") from None


def _system_zone() -> ZoneInfo:
    from tzlocal import get_localzone_name

    name = get_localzone_name()
    return ZoneInfo(name if name else "UTC")
