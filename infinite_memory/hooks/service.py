"""The daemon's side of the hooks: captures spooled events in the background, and returns the context for a session.

An event is removed from the spool when its turns are stored. If that fails it stays there and is retried with exponential backoff, at
the next event, and at the daemon's next start; so no acknowledged event is lost, however the daemon ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import datetime as dt
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infinite_memory.config import Config
from infinite_memory.engine.engine import Engine
from infinite_memory.errors import InfiniteMemoryError, ScopeArchivedError
from infinite_memory.hooks.capture import Capture
from infinite_memory.hooks.control import OFF, read_control, settle_control
from infinite_memory.hooks.digests import CHECK_ALL_S, Digests, is_quiet, purged_before
from infinite_memory.hooks.event_settings import EventSettings, carried_by
from infinite_memory.hooks.files import (
    CLAUDE_CODE,
    CLIENTS,
    CURSOR,
    Json,
    read_json,
    record_event,
    set_aside,
    waiting,
)
from infinite_memory.hooks.projects import Project, find_project, find_scope
from infinite_memory.hooks.recalling import Asking, recall_for_prompt, recall_for_start
from infinite_memory.hooks.sessions import Reading, Sessions
from infinite_memory.llm.factory import configured_model
from infinite_memory.models import MemoryRecord
from infinite_memory.settings import ModelSettings
from infinite_memory.zones import find_zone

log = logging.getLogger(__name__)

RETRY_S = (1.0, 300.0)  # first and longest delay before a retry
ANSWER_S = 0.6  # the hook waits 0.8 s: a later answer is not shown, and must not count as shown
CAPTURED, DIGESTED, WRITTEN = "capture", "digest", "digest-by-model"
"""Names of the daemon's own events for `doctor`."""


class HookService:
    """Captures and recalls for the sessions of one home. Use from one event loop only."""

    def __init__(self, engine: Callable[[], Awaitable[Engine]], home: Path, config_file: Path) -> None:
        self._engine, self._home = engine, home
        self._settings = EventSettings(config_file)
        self._sessions = Sessions(home)
        self._capture = Capture(self._sessions)
        self._draining: asyncio.Task[None] | None = None
        self._is_wanted = self._is_catching_up = False
        self._retry: asyncio.TimerHandle | None = None
        self._pause_s = RETRY_S[0]
        self._direct: list[Json] = []  # events that the hook could not write to disk
        self._started_folders: set[str] = (
            set()
        )  # folders in which a session started, whose digests are still to be checked
        self._checked_at: dict[Path, float] = {}  # when all digests of a project were last checked
        self._removed: dict[str, list[MemoryRecord]] = {}  # digests removed because of what they quoted, by session
        self._subscribing: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._unwritten: list[tuple[Digests, Reading, ModelSettings]] = []  # digests that a model is to write

    def start(self) -> None:
        """Read the spool in the background, and subscribe to digests that are removed because of what they quote."""
        self._subscribing = asyncio.create_task(self._subscribe(), name="hooks-digests")
        if waiting(self._home):
            self.drain()

    async def close(self) -> None:
        """Stop; events not stored yet are read at the next start."""
        if self._retry is not None:
            self._retry.cancel()
        tasks = [task for task in (self._draining, self._subscribing, self._writing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _subscribe(self) -> None:
        with contextlib.suppress(InfiniteMemoryError):  # an engine that fails to start removes no digests
            (await self._engine()).on_digests_removed(self._on_digests_removed)

    def _on_digests_removed(self, digests: Sequence[MemoryRecord]) -> None:
        for digest in digests:
            if digest.conversation_id is not None:
                self._removed.setdefault(digest.conversation_id, []).append(digest)
        self.drain()

    async def answer(self, message: Mapping[str, Any]) -> Json:
        """Answer one message of a hook; raises nothing but cancellation."""
        kind = message.get("what")
        if kind in ("capture", "recall"):
            self._direct.append(dict(message))
        if message.get("event") == "SessionStart" and isinstance(cwd := message.get("cwd"), str):
            self._started_folders.add(cwd)
        is_start = message.get("event") == "SessionStart"
        if kind != "recall":
            self.drain(catch_up=is_start)
            return {"ok": True}
        try:
            async with asyncio.timeout(ANSWER_S):
                return {"ok": True, "context": await self._recall(message)}
        except TimeoutError:
            return {"ok": True, "late": True}
        except (InfiniteMemoryError, OSError) as exc:
            record_event(self._home, _client(message), "recall", str(exc))
        except Exception as exc:
            log.exception("a recall for a hook failed", extra={"event": "hook_failed"})
            record_event(self._home, _client(message), "recall", type(exc).__name__)
        finally:
            self.drain(catch_up=is_start)  # not concurrently with the answer, which a turn waits for
        return {"ok": True}

    async def _recall(self, message: Mapping[str, Any]) -> str:
        event, session_id, cwd = (str(message.get(name) or "") for name in ("event", "session_id", "cwd"))

        def read() -> tuple[Config, Project | None]:
            return self._settings.read(message), find_project(cwd) if os.path.isabs(cwd) else None  # noqa: PTH117

        config, project = await asyncio.to_thread(read)
        if project is None or not project.recalls or read_control(self._home).state == OFF:
            return ""
        engine = await self._engine()
        recalled = self._sessions.recalled(session_id)
        before = copy.deepcopy(recalled)
        scopes = tuple(dict.fromkeys((await find_scope(engine, project), config.scopes.default)))
        zone = find_zone(config.time.zone, os.environ)

        def asking(tokens: int) -> Asking:
            return Asking(session_id, scopes, tokens, dt.datetime.now(dt.UTC), zone, purged_before(config))

        texts: list[str] = []
        if event == "SessionStart" and message.get("source") == "resume":
            recalled.is_started = True  # its context still has the earlier recall
        elif not recalled.is_started:
            # The first prompt gets the start's text if the daemon was not ready at session start.
            texts.append(await recall_for_start(engine, asking(config.hooks.start_tokens), recalled))
            recalled.is_started = True
        if isinstance(prompt := message.get("prompt"), str):
            tokens = asking(config.hooks.prompt_tokens)
            texts.append(await recall_for_prompt(engine, prompt, tokens, recalled, config.hooks.min_confidence))
        if recalled != before:
            await asyncio.to_thread(self._sessions.save_recalled, recalled)
        record_event(self._home, _client(message), "recall")
        return "\n".join(filter(None, texts))

    def drain(self, *, catch_up: bool = False) -> None:
        """Read the spool in the background, and with *catch_up* also what was appended to transcripts since their last event."""
        self._is_wanted = True
        self._is_catching_up |= catch_up
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain(), name="hooks")

    async def _drain(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            failed: set[Any] = set()  # sessions with failed events, which are not read before those are retried
            for path in await asyncio.to_thread(waiting, self._home):
                event = await asyncio.to_thread(read_json, path)
                if event is None:
                    await asyncio.to_thread(set_aside, path)
                elif await self._take(event):
                    with contextlib.suppress(OSError):
                        path.unlink()
                else:
                    failed.add(event.get("session_id"))
            self._plan_retry(is_needed=bool(failed))
            while self._direct:
                await self._take(self._direct.pop(0))
            while self._removed:
                await self._make_again(*self._removed.popitem())
            if self._is_catching_up:
                self._is_catching_up = False
                await asyncio.to_thread(self._sessions.remove_old)
                for reading in await asyncio.to_thread(self._sessions.unfinished):
                    if reading.session_id in failed:
                        continue
                    await self._take(
                        {"session_id": reading.session_id, "transcript_path": reading.transcript, "cwd": reading.cwd,
                         "environ": reading.environ, "client": reading.client}
                    )  # fmt: skip
                for reading in await asyncio.to_thread(self._sessions.undigested):
                    if await asyncio.to_thread(is_quiet, self._sessions.growing_file(reading)):
                        await self._digest(reading)
                while self._started_folders:
                    await self._digest(None, self._started_folders.pop())

    def _plan_retry(self, *, is_needed: bool) -> None:
        """Schedule the next read of the spool; the delay doubles each time and is reset when nothing fails."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if not is_needed:
            self._pause_s = RETRY_S[0]
            return
        self._retry = asyncio.get_running_loop().call_later(self._pause_s, self.drain)
        self._pause_s = min(2 * self._pause_s, RETRY_S[1])

    async def _take(self, event: Json) -> bool:
        """Capture the turns of an event; False if it has to be retried."""
        try:
            if not await self._read(event):
                return True
        except (ScopeArchivedError, FileNotFoundError, ValueError) as exc:  # a retry would not help
            record_event(self._home, _client(event), CAPTURED, str(exc))
            return True
        except (InfiniteMemoryError, OSError) as exc:
            record_event(self._home, _client(event), CAPTURED, str(exc))
            return False
        except Exception as exc:
            log.exception("an event of a hook failed", extra={"event": "hook_failed"})
            record_event(self._home, _client(event), CAPTURED, type(exc).__name__)
            return False
        record_event(self._home, _client(event), CAPTURED)
        return True

    async def _read(self, event: Json) -> bool:
        """Read the turns up to an event, with the variables of their client; False if there is nothing to do.

        If a client resumes a session with other variables, turns before its start belong to the old ones; if its start was not seen,
        capture must be on with both.
        """
        session_id, transcript = event.get("session_id"), event.get("transcript_path")
        cwd = event.get("cwd")
        if event.get("what") == "recall" and not (session_id and transcript and cwd):
            return False
        if not (isinstance(session_id, str) and isinstance(transcript, str) and isinstance(cwd, str)):
            raise ValueError("the event names no session, transcript or folder")
        is_told = _client(event) == CURSOR  # the text comes with the event, not from a transcript
        transcript = "" if is_told else str(Path(transcript).expanduser())
        environ = carried_by(event)
        reading = await asyncio.to_thread(self._sessions.find_reading, session_id, transcript)
        if event.get("what") == "recall" and (reading is None or reading.environ == environ):
            return False
        if reading is None:
            fresh = Reading(session_id, transcript, cwd, environ=environ, client=_client(event))
            reading = await asyncio.to_thread(self._sessions.begin, fresh)
        reading.cwd = reading.cwd or cwd
        settings = [reading.environ, environ][: 1 if event.get("event") == "SessionStart" else 2]
        until, is_beginning = _instant(event), event.get("what") == "recall"
        try:
            if not is_told:
                await self._capture_until(until, reading, settings)
            elif isinstance(spoken := event.get("said"), dict):
                await self._capture_until(until, reading, settings, spoken)
        except BaseException:
            if is_beginning:  # not retried: the variables that apply to the unread turns are unknown
                reading.withheld_until = max(reading.withheld_until, until or time.time())
                await self._take_over(reading, environ)
            raise
        await self._take_over(reading, environ)
        if event.get("event") == "SessionEnd":
            await self._digest(reading)
        return True

    async def _make_again(self, session_id: str, removed: Sequence[MemoryRecord]) -> None:
        """Remake the digest of a session from its remaining turns. A session whose reading is no longer stored gets none."""
        for reading in (await asyncio.to_thread(self._sessions.of_session, session_id))[:1]:
            reading.digested = 0  # until it is made: if this run does not get to it, a later start does
            await asyncio.to_thread(self._sessions.save_reading, reading)
            await self._digest(reading, removed=removed)

    async def _digest(self, reading: Reading | None, cwd: str = "", removed: Sequence[MemoryRecord] = ()) -> None:
        """Make the digest of a session, or check those of a folder's project. Failures are retried at a later start."""
        client = CLAUDE_CODE if reading is None else reading.client
        try:
            project: Project = await asyncio.to_thread(find_project, cwd if reading is None else reading.cwd)
            config = await asyncio.to_thread(
                self._settings.read, {"environ": {} if reading is None else reading.environ}
            )
            remakes = project.captures and config.capture.enabled and config.capture.digests
            if reading is not None and not remakes:
                reading.digested = reading.offset  # no digest is made of what was read so far
                await asyncio.to_thread(self._sessions.save_reading, reading)
                return
            engine = await self._engine()
            project = dataclasses.replace(project, scope=await find_scope(engine, project))
            ledger = self._sessions.ledger(project.root)
            digests = Digests(engine, project, ledger, client, purged_before(config))
            if reading is None:
                is_due = time.monotonic() - self._checked_at.get(project.root, -CHECK_ALL_S) >= CHECK_ALL_S
                await digests.check(all_of_them=is_due, remakes=remakes)
                if is_due:
                    self._checked_at[project.root] = time.monotonic()
            else:
                await digests.refresh(reading.session_id, removed)
                reading.digested = reading.offset
                await asyncio.to_thread(self._sessions.save_reading, reading)
                if config.capture.digest_by_model and config.model.api is not None:
                    self._write_later(digests, reading, config.model)
        except (InfiniteMemoryError, OSError) as exc:
            record_event(self._home, client, DIGESTED, str(exc))
        except Exception as exc:
            log.exception("a digest could not be made", extra={"event": "hook_failed"})
            record_event(self._home, client, DIGESTED, type(exc).__name__)
        else:
            record_event(self._home, client, DIGESTED)

    def _write_later(self, digests: Digests, reading: Reading, settings: ModelSettings) -> None:
        """Have the model write a digest in a separate task: capture and recall never wait for a model."""
        self._unwritten.append((digests, reading, settings))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="hooks-model")

    async def _write(self) -> None:
        while self._unwritten:
            digests, reading, settings = self._unwritten.pop(0)
            try:
                model = configured_model(settings)
                if model is not None:
                    await digests.rewrite(reading.session_id, model)
            except (InfiniteMemoryError, OSError) as exc:
                record_event(self._home, reading.client, WRITTEN, str(exc))
            except Exception as exc:
                log.exception("a model wrote no digest", extra={"event": "hook_failed"})
                record_event(self._home, reading.client, WRITTEN, type(exc).__name__)
            else:
                record_event(self._home, reading.client, WRITTEN)

    async def _take_over(self, reading: Reading, environ: dict[str, str]) -> None:
        if reading.environ != environ:
            reading.environ = environ
            await asyncio.to_thread(self._sessions.save_reading, reading)

    async def _capture_until(
        self, until: float | None, reading: Reading, settings: list[dict[str, str]], message: Json | None = None
    ) -> None:
        """Store the turns up to an instant, or the turn in an event (*message*)."""
        project: Project = await asyncio.to_thread(find_project, reading.cwd)
        configs = [await asyncio.to_thread(self._settings.read, {"environ": setting}) for setting in settings]
        stores = project.captures and all(config.capture.enabled for config in configs)
        control, engine = await asyncio.to_thread(settle_control, self._home), await self._engine()
        if stores:
            project = dataclasses.replace(project, scope=await find_scope(engine, project))
        if message is not None:
            await self._capture.capture_said(engine, message, reading, project, control, stores=stores)
            return
        await self._capture.capture(engine, reading, project, control, stores=stores, until=until)


def _client(event: Mapping[str, Any]) -> str:
    """Return the assistant that sent an event."""
    client = event.get("client")
    return client if client in CLIENTS else CLAUDE_CODE


def _instant(event: Mapping[str, Any]) -> float | None:
    """Return the Unix timestamp of an event; None if it has none, or an impossible one."""
    timestamp = event.get("at")
    return timestamp if isinstance(timestamp, float) and 0 < timestamp <= time.time() else None
