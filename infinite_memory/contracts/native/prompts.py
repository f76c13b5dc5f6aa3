"""Prompts: predefined requests that a user selects in the client, in our own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infinite_memory.contracts.fields import Json
from infinite_memory.errors import InvalidRequestError, truncated_repr

_SCOPE: Json = {"name": "scope", "description": "Only this scope", "required": False}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its name, its arguments, and its text."""

    name: str
    title: str
    about: str
    arguments: tuple[Json, ...]
    text: Callable[[Mapping[str, str]], str]


def _within(arguments: Mapping[str, str]) -> str:
    return f' Look only into the scope "{arguments["scope"]}".' if arguments.get("scope") else ""


def _recall(arguments: Mapping[str, str]) -> str:
    return (
        f"What do I have in memory about: {arguments['topic']}?{_within(arguments)}\n"
        "Look it up with retrieve_memory, and with recall_memory_by_time if I name a time. Answer from what you find, with "
        "dates, and name what contradicts. If nothing fits, say so and name the scopes that were searched."
    )


def _save(arguments: Mapping[str, str]) -> str:
    subject = f"this: {arguments['what']}" if arguments.get("what") else "what matters of our conversation so far"
    where = f' Store into the scope "{arguments["scope"]}".' if arguments.get("scope") else ""
    return (
        f"Remember {subject}.{where}\nFirst look with retrieve_memory whether it is known already; if a fact has changed, use "
        "update_memory. Store each fact as a memory of its own, in a whole sentence that is understood without this "
        "conversation, with a few tags. No passwords. Then list what you stored."
    )


def _review(arguments: Mapping[str, str]) -> str:
    return (
        f"Go through my memories with me.{_within(arguments)}\nList the newest with search_by_scope or list_memories, group them by "
        "subject, and point out what is doubled, out of date or contradictory. Propose what to update or forget, and change "
        "nothing before I agree."
    )


def _weekly(arguments: Mapping[str, str]) -> str:
    return (
        f'Sum up my past week from memory.{_within(arguments)}\nUse recall_memory_by_time with "the last 7 days". Write what '
        "happened, what was decided, and what is still open, by day, in a few lines. Invent nothing."
    )


PROMPTS = (
    Prompt("recall", "Recall", "Look up what is remembered about a topic",
           ({"name": "topic", "description": "What to look up", "required": True}, _SCOPE), _recall),
    Prompt("save", "Save", "Store a fact, or what matters of this conversation",
           ({"name": "what", "description": "What to remember; default: this conversation", "required": False}, _SCOPE), _save),
    Prompt("review", "Review", "Go through what is stored and tidy it", (_SCOPE,), _review),
    Prompt("weekly_summary", "Weekly summary", "Sum up the past seven days", (_SCOPE,), _weekly),
)  # fmt: skip


def list_prompts() -> list[Json]:
    """Return the description of every prompt."""
    return [
        {"name": prompt.name, "title": prompt.title, "description": prompt.about, "arguments": list(prompt.arguments)}
        for prompt in PROMPTS
    ]


def get_prompt(name: str, arguments: Mapping[str, str]) -> Json:
    """Return a prompt with its arguments filled in.

    Raises:
        InvalidRequestError: there is no such prompt, or a required argument is missing.
    """
    prompt = next((entry for entry in PROMPTS if entry.name == name), None)
    if prompt is None:
        raise InvalidRequestError(
            "name", f"{truncated_repr(name)} is not a prompt; known: {', '.join(entry.name for entry in PROMPTS)}"
        )
    for argument in prompt.arguments:
        if argument["required"] and not arguments.get(argument["name"], "").strip():
            raise InvalidRequestError(f"arguments.{argument['name']}", "is required")
    message = {"role": "user", "content": {"type": "text", "text": prompt.text(arguments)}}
    return {"description": prompt.about, "messages": [message]}
