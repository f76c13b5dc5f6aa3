"""Builds all components from a `Config`, starts them in order and stops them in reverse. Only this file knows the implementations.

Startup does not block: MongoDB boots, the heavy libraries are imported and the model loads concurrently, while invalid input,
`ping` and `help` are already answered.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from infinite_memory.clock import Clock, system_clock
from infinite_memory.config import Config
from infinite_memory.contracts.native.contract import NativeContract
from infinite_memory.contracts.registry import NATIVE, get_spec
from infinite_memory.contracts.session import ClientSession, ContractContext
from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.engine.engine import Engine, Services
from infinite_memory.engine.events import Events
from infinite_memory.engine.usage import UsageCounter
from infinite_memory.errors import ConfigError, InfiniteMemoryError
from infinite_memory.index.engine_change import EngineBuild
from infinite_memory.index.second_space import SecondSpace
from infinite_memory.index.sync import IndexSync
from infinite_memory.index.text_sync import TextSync
from infinite_memory.jobs.administration import Administration
from infinite_memory.jobs.cluster import Presence
from infinite_memory.jobs.runner import Jobs
from infinite_memory.malloc_tuning import limit_arenas
from infinite_memory.mongod.server import LocalMongo
from infinite_memory.paths import Home
from infinite_memory.settings import EmbeddingSettings, IndexSettings
from infinite_memory.store import descriptors
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.transports.lines import LineContract
from infinite_memory.transports.mcp import McpSession
from infinite_memory.zones import find_zone, zone_and_note

if TYPE_CHECKING:
    from infinite_memory.embedding.base import Embedder
    from infinite_memory.index.base import TextFiles, VectorIndexFiles
    from infinite_memory.store.base import Store

log = logging.getLogger(__name__)

LITTLE_FILES = 4096  # below this limit of open files, a warning says how many scopes it allows


class Application(AbstractAsyncContextManager["Application"]):
    """The running memory of one home. Used from one event loop."""

    def __init__(self, config: Config, home: Home, clock: Clock = system_clock) -> None:
        self.config, self.home, self._clock = config, home, clock
        self.mongod = None if config.mongodb.uri else self._local_mongo()
        self._building: asyncio.Task[Engine] | None = None
        self.events = Events(self.engine)
        self.jobs: Jobs | None = None
        self.presence: Presence | None = None
        self.services: Services | None = None
        self._administration: Administration | None = None

    async def __aenter__(self) -> Self:
        self.home.make()
        if self.mongod is not None:
            self._booting = asyncio.create_task(_quietly(self.mongod), name="mongod")
        self._building = asyncio.create_task(self._build(), name="build")
        if (files := descriptors.limit()) is not None and files < LITTLE_FILES and self.mongod is not None:
            log.warning(
                "the limit of open files is %d: enough for %d scopes; raise its hard limit for more", files,
                descriptors.max_scopes(), extra={"event": "few_descriptors"},
            )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._close_parts()
        finally:
            if self.mongod is not None:
                await self.mongod.stop()  # even after an error, no process of ours is left running

    async def _close_parts(self) -> None:
        assert self._building is not None
        await asyncio.gather(self._building, return_exceptions=True)
        self.events.close()
        if self.jobs is not None:
            await self.jobs.close()
        if self.presence is not None:
            await self.presence.close()
        if (services := self.services) is not None:
            if services.uses is not None:
                await services.uses.close()
            await services.index.close()
            await services.index.second.embeddings.close()
            await services.embeddings.close()
            await services.store.close()

    async def engine(self) -> Engine:
        """Return the engine once it is built; its methods wait for the components that they need."""
        assert self._building is not None
        return await asyncio.shield(self._building)

    def built_engine(self) -> Engine | None:
        """Return the engine if it is built already, or None."""
        task = self._building
        built = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return task.result() if built and task is not None else None

    def find_failure(self) -> BaseException | None:
        """Return why the engine could not be built, unless the settings or the database are at fault; such a process never gets one."""
        task = self._building
        exc = task.exception() if task is not None and task.done() and not task.cancelled() else None
        return None if isinstance(exc, InfiniteMemoryError) else exc

    async def administration(self) -> Administration:
        """Return the operations on the whole memory, once the engine is built."""
        await self.engine()
        assert self._administration is not None
        return self._administration

    def contract(self, session: ClientSession) -> NativeContract:
        """Start a client session of the native contract, over lines."""
        return NativeContract(self.engine, session, self._clock, self.administration)

    def mcp(self, session: ClientSession) -> McpSession:
        """Start a client session of the native contract, over MCP."""
        return self.speak(NATIVE, session, {}, {})

    def speak(
        self, contract: str, session: ClientSession, environ: Mapping[str, str], options: Mapping[str, str]
    ) -> McpSession:
        """Start a client session of any contract, over MCP; *environ* and *options* are the client's.

        Raises:
            ConfigError: there is no such contract, or a variable or option is invalid.
        """
        return McpSession(get_spec(contract).open_mcp(self._context(session, environ, options)))

    def find_lines(
        self, contract: str, session: ClientSession, environ: Mapping[str, str], options: Mapping[str, str]
    ) -> Callable[[], LineContract] | None:
        """Return a factory of a client session over lines, or None if the contract does not support lines.

        Raises:
            ConfigError: there is no such contract.
        """
        spec = get_spec(contract)
        if not spec.speaks_lines:
            return None
        return lambda: spec.open_lines(self._context(session, environ, options))

    def _context(
        self, session: ClientSession, environ: Mapping[str, str], options: Mapping[str, str]
    ) -> ContractContext:
        return ContractContext(
            self.engine,
            session,
            self.events,
            self.home.path,
            environ,
            options,
            self.config.model,
            self._clock,
            self.administration,
        )

    async def _build(self) -> Engine:
        embedder, second, files, second_files, text_files, store = await asyncio.to_thread(self._open_parts)
        config = self.config
        embeddings = EmbeddingService(embedder, config.recall.wait_s)
        second_space = SecondSpace(
            store,
            embeddings,
            EmbeddingService(second, config.recall.wait_s),
            second_files,
            config.embedding.second_model,
        )
        scopes = ScopeCache(store, self._clock)
        index = IndexSync(
            store, scopes, embeddings, files, TextSync(store, text_files), second_space,
            wait_s=config.recall.wait_s, save_every_s=config.sidecar.save_every_s,
        )  # fmt: skip
        index.subscribe(self.events.publish)
        embeddings.start()
        index.start()
        reranker = None
        if config.recall.reranker:
            from infinite_memory.embedding.reranker import Reranker

            reranker = Reranker(config.recall.reranker)
        uses = UsageCounter(store, self._clock)
        self.services = Services(store, index, embeddings, scopes, config, self._clock, reranker, uses)
        self._administration = Administration(
            store=store, index=index, scopes=scopes, embeddings=embeddings, config=config, clock=self._clock, uses=uses,
            home=self.home.path, backup_folder=self.home.backup_folder(self.config.backup.folder),
            forgettings=self.services.forgettings,
        )  # fmt: skip
        engine = Engine(self.services)
        zone = find_zone(config.time.zone, os.environ)
        self.jobs = Jobs(engine, self._administration, zone, store=store, config=config, clock=self._clock)
        self.jobs.start()
        self.presence = Presence(store, index, engine=config.index.engine, is_shared=config.mongodb.uri is not None)
        self.presence.start()
        return engine

    def _open_parts(self) -> tuple[Embedder, Embedder, VectorIndexFiles, VectorIndexFiles, TextFiles, Store]:
        """Import the heavy libraries; called in a thread, so that only requests that need them wait."""
        from infinite_memory.embedding.factory import open_embedder
        from infinite_memory.embedding.manifest import SECOND_MODEL
        from infinite_memory.index.text.files import TantivyTextFiles
        from infinite_memory.index.vector.files import FaissIndexFiles
        from infinite_memory.store.mongo.store import MongoStore

        settings, mongodb, config_index = self.config.embedding, self.config.mongodb, self.config.index
        store = MongoStore(
            mongodb.uri or self._ensure_mongod,
            database=mongodb.database,
            driver=mongodb.driver,
            timeout_s=mongodb.timeout_s,
            process=lambda: self.mongod.own_pid() if self.mongod is not None else None,
        )
        embedder = open_embedder(
            settings.model,
            truncate_dim=settings.truncate_dim,
            precision=settings.precision,
            prepare=settings.prepare,
        )
        second = open_embedder(SECOND_MODEL, prepare=settings.prepare)
        sidecars = self.home.sidecars
        # The second space is always in files, also beside an index server: derived data, and quick to rebuild.
        files, second_files = self._open_index(config_index), FaissIndexFiles(sidecars / "second")
        return embedder, second, files, second_files, TantivyTextFiles(sidecars / "text"), store

    async def open_engine_build(self, settings: IndexSettings) -> EngineBuild:
        """Return a build of an index for another engine than the one in use.

        Raises:
            ConfigError: *settings* name the engine in use, or an unusable one.
        """
        if settings.engine == self.config.index.engine:
            raise ConfigError(f"index.engine is {settings.engine!r} already; `infinite-memory reindex` builds it anew")
        check_index(dataclasses.replace(self.config, index=settings))
        await self.engine()
        services = self.services
        assert services is not None
        files = await asyncio.to_thread(lambda: self._open_index(settings))
        return EngineBuild(services.store, services.scopes, services.embeddings, services.index, files)

    def _open_index(self, settings: IndexSettings) -> VectorIndexFiles:
        if settings.engine == "milvus" and settings.uri is not None:
            from infinite_memory.index.milvus.files import MilvusIndexFiles

            return MilvusIndexFiles(settings.uri, settings.token, timeout_s=settings.timeout_s)
        from infinite_memory.index.vector.files import FaissIndexFiles

        return FaissIndexFiles(self.home.sidecars)

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
            find_obstacle=descriptors.too_few_to_start,
        )


def check_settings(config: Config) -> None:
    """Refuse at startup what would fail in every request: an unusable model, index engine or time zone.

    Raises:
        ConfigError: a setting is wrong.
    """
    check_model(config)
    check_index(config)
    find_zone(config.time.zone, os.environ)


def check_index(config: Config) -> None:
    """Refuse an unusable index engine.

    Raises:
        ConfigError: ``index.engine`` is milvus, and ``index.uri`` or the Milvus client library is missing.
    """
    if config.index.engine != "milvus":
        return
    if config.index.uri is None:
        raise ConfigError("index.engine = 'milvus' needs index.uri: the address of the server, as http://host:19530")
    needed = ["pymilvus"] if "://" in config.index.uri else ["pymilvus", "milvus_lite"]
    if missing := [name for name in needed if find_spec(name) is None]:
        extra = "milvus" if missing == ["pymilvus"] else "milvus-lite"
        raise ConfigError(f"index.engine = 'milvus' needs the package {missing[0]}: install infinite-memory[{extra}]")


def check_model(config: Config) -> None:
    """Refuse settings that the model does not support; loads no weights, and checks only if more than the model's name is set.

    Raises:
        ConfigError: ``embedding.truncate_dim`` or ``embedding.precision`` does not fit the model.
    """
    settings = config.embedding
    if settings != EmbeddingSettings(settings.model, prepare=settings.prepare, second_model=settings.second_model):
        from infinite_memory.embedding.factory import open_embedder

        open_embedder(settings.model, truncate_dim=settings.truncate_dim, precision=settings.precision)


async def _quietly(mongod: LocalMongo) -> None:
    """Boot MongoDB early; errors are ignored, because the store retries and reports them."""
    await asyncio.gather(mongod.ensure(), return_exceptions=True)


def prepare_process() -> None:
    """Configure this process: enough open files, also for MongoDB, a heap that stays small, and files readable by their owner only."""
    descriptors.raise_limit()
    limit_arenas()
    if os.name == "posix":
        os.umask(0o077)


def new_session(config: Config, environ: Mapping[str, str]) -> ClientSession:
    """Return a client's session, from its settings and environment."""
    zone, note = zone_and_note(config.time.zone, environ)
    return ClientSession(
        active_scope=config.scopes.default,
        zone=zone,
        ignored=[note] if note is not None else [],
        limits=config.limits,
        auto_create=config.scopes.auto_create,
        mcp_tools=config.mcp.tools,
        contracts=config.contracts,
    )
