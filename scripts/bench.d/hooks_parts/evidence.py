"""Asks each question as a prompt of a later session, and looks at what is put beside it; and what `retrieve_memory` gives in its place."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hooks_parts.conversations import Question
from infinite_memory import __version__
from infinite_memory.daemon.ipc import PROTOCOL, connect
from infinite_memory.hooks.recalling import estimate_tokens
from infinite_memory.hooks.sessions import Sessions
from tests.processes import Client, Installation

ANSWER_S = 30.0
TRIES = 20
PLAIN_RESULTS = 50
PLAIN_CHARS = 700  # of a text, as a line of the hook's


@dataclass
class Yield:
    """What some prompts brought: how many anything, how many their evidence, and how many of the lines hold any.

    ``others`` are the lines that hold none by the set's list, each with its question: to be read, for a list may lack some.
    """

    prompts: int = 0
    with_any: int = 0
    with_evidence: int = 0
    lines: int = 0
    right_lines: int = 0
    others: list[str] = field(default_factory=list)

    def add(self, lines: Sequence[Sequence[str]], relevant: frozenset[str]) -> None:
        """Count one prompt; *lines* are the ids of the turns that each line shows."""
        right = sum(not relevant.isdisjoint(line) for line in lines)
        self.prompts += 1
        self.with_any += bool(lines)
        self.with_evidence += bool(right)
        self.lines += len(lines)
        self.right_lines += right

    def shares(self) -> str:
        """Write the shares."""
        precision = self.right_lines / self.lines if self.lines else 0.0
        return (
            f"{self.prompts:5} prompts  anything {self.with_any / self.prompts:.3f}  evidence {self.with_evidence / self.prompts:.3f}"
            f"  right of what is shown {precision:.3f} ({self.lines} lines)"
        )


def merged(parts: Mapping[int, Yield]) -> Yield:
    """Add up what the halves of some questions brought."""
    whole = Yield()
    for one in parts.values():
        for name in ("prompts", "with_any", "with_evidence", "lines", "right_lines", "others"):
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
    return whole


def by_hook(
    memory: Installation, questions: Sequence[Question], turn_ids: Mapping[str, str], tokens: int
) -> dict[int, Yield]:
    """Ask by the message that the hook sends, each question in a session of its own; what a start gives is left out.

    Returns:
        What each half of the questions brought.
    """
    halves: dict[int, Yield] = {}
    sessions = Sessions(memory.home)
    for question in questions:
        session_id = str(uuid.uuid4())
        text = _ask(memory, question, session_id, tokens)
        ids = iter(sessions.recalled(session_id).memory_ids if text else ())
        shown = [line for line in text.split("\n") if line.startswith("- [")]
        lines = [[turn_ids.get(next(ids), "") for _ in range(2 if " [answer] " in line else 1)] for line in shown]
        found = halves.setdefault(question.half, Yield())
        found.add(lines, question.relevant)
        wrong = [line for line, turns in zip(shown, lines, strict=True) if question.relevant.isdisjoint(turns)]
        found.others += [f"{question.text}\n    {line}" for line in wrong]
    return halves


def _ask(memory: Installation, question: Question, session_id: str, tokens: int) -> str:
    message = {
        "protocol": PROTOCOL, "version": __version__, "pid": os.getpid(), "kind": "hook", "what": "recall", "event": "UserPromptSubmit",
        "at": time.time(), "session_id": session_id, "cwd": str(memory.home.parent / question.project), "prompt": question.text,
        "environ": {"INFINITE_MEMORY_HOOKS__START_TOKENS": "0", "INFINITE_MEMORY_HOOKS__PROMPT_TOKENS": str(tokens)},
    }  # fmt: skip
    for _ in range(TRIES):  # on a busy machine an answer may come too late to be shown: here it is asked again
        link = connect(memory.home, ANSWER_S)
        assert link is not None
        with link:
            link.sendall(json.dumps(message).encode("ascii") + b"\n")
            answer = json.loads(link.makefile("rb").readline())
        if not answer.get("late"):
            return str(answer.get("context", ""))
        message["session_id"] = session_id
    raise SystemExit("the daemon does not answer in time")


def by_retrieval(
    client: Client, questions: Sequence[Question], turn_ids: Mapping[str, str], budgets: Sequence[int]
) -> dict[int, Yield]:
    """Ask `retrieve_memory` and take results, best first, as long as their texts keep within the budget."""
    found = {tokens: Yield() for tokens in budgets}
    for question in questions:
        scope = f"project ~/{question.project}"
        reply = client.ask("retrieve_memory", query=question.text, filter={"scope": scope}, top_k=PLAIN_RESULTS)
        for tokens, one in found.items():
            rest, lines = tokens, []
            for result in reply.get("results", []):
                rest -= estimate_tokens(result["text"][:PLAIN_CHARS]) + 1
                if rest < 0:
                    break
                lines.append([turn_ids.get(result["memory_id"], "")])
            one.add(lines, question.relevant)
    return found
