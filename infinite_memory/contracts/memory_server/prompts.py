"""The two prompts of the Memory Server, in our own words."""

from __future__ import annotations

from collections.abc import Mapping

from infinite_memory.contracts.fields import Json
from infinite_memory.errors import InvalidRequestError, truncated_repr

_PROJECT: Json = {"name": "project", "description": "Only this project (its tag is project:<name>)", "required": False}

PROMPTS: list[Json] = [
    {"name": "memory_recall", "title": "Recall", "description": "Look up what is remembered about a topic before answering",
     "arguments": [{"name": "topic", "description": "What to look up; default: what we talk about", "required": False}, _PROJECT]},
    {"name": "memory_save", "title": "Save", "description": "Save what will matter later",
     "arguments": [{"name": "what", "description": "What to save; default: what is new in this conversation", "required": False},
                   _PROJECT]},
]  # fmt: skip


def get_prompt(name: str, arguments: Mapping[str, str]) -> Json:
    """Return a prompt with its arguments filled in.

    Raises:
        InvalidRequestError: there is no such prompt.
    """
    prompt = next((entry for entry in PROMPTS if entry["name"] == name), None)
    if prompt is None:
        names = ", ".join(entry["name"] for entry in PROMPTS)
        raise InvalidRequestError("name", f"{truncated_repr(name)} is not a prompt; known: {names}")
    text = _recall(arguments) if name == "memory_recall" else _save(arguments)
    return {
        "description": prompt["description"],
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }


def _recall(arguments: Mapping[str, str]) -> str:
    topic = arguments.get("topic", "").strip() or "what we are talking about"
    tag = f' with the tag "project:{arguments["project"]}"' if arguments.get("project") else ""
    return (
        f"What do my memories say about {topic}? Ask memory_search{tag}, in a few precise words; without hits leave out the type, "
        "then tags. Read the hits whole with resources/read before you rely on them. Answer from what they say, and tell me when "
        "nothing fits."
    )


def _save(arguments: Mapping[str, str]) -> str:
    subject = arguments.get("what", "").strip() or "what is new in this conversation and will matter later"
    tag = f"project:{arguments['project']}" if arguments.get("project") else "project:<name>"
    return (
        f"Save {subject} with memory_create: one memory for each decision, fact or procedure, its content an object with telling keys, "
        f"tags such as {tag} and topic:<area>, and a confidence that says how sure it is. Nothing secret. Then list the ids."
    )
