"""What is read from the events of each assistant."""

from __future__ import annotations

import pytest

from infinite_memory.hooks.clients import read_event

RECALLED = "<hook_context>&lt;infinite-memory&gt; tea &lt;/infinite-memory&gt;</hook_context>\n\n"


@pytest.mark.parametrize(
    "typed", ["Where do we deploy?", "What does </hook_context> end?", "<hook_context> opens what?", ""]
)
def test_what_a_hook_added_before_a_prompt_is_no_part_of_it(typed: str) -> None:
    """As Gemini CLI 0.61 gives the first prompt of a session whose start brought something; seen by running it."""
    for whole in (RECALLED + typed, typed):
        event = read_event("gemini", "BeforeAgent", {"session_id": "s", "prompt": whole})
        assert event["prompt"].strip() == typed


@pytest.mark.parametrize("prompt", [7, None, ["x"]])
def test_a_prompt_that_is_no_text_is_left_out(prompt: object) -> None:
    assert "prompt" not in read_event("claude-code", "UserPromptSubmit", {"session_id": "s", "prompt": prompt})
