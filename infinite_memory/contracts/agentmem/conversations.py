"""What was said in chats, so that a turn can refer to the one before. Kept in the process only, and for a while.

Why not among the memories: what somebody once typed is not a fact about them, and would be found as one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from infinite_memory.model_port.base import Role, Turn

Key = tuple[str, str | None, str | None]
"""User, agent and session; the session is None where the client names none."""

KEPT_TURNS = 20  # of one conversation
KEPT_CONVERSATIONS = 1000


class Conversations:
    """The newest turns of the newest conversations."""

    def __init__(self) -> None:
        self._turns: OrderedDict[Key, deque[Turn]] = OrderedDict()

    def turns(self, key: Key) -> Sequence[Turn]:
        """Give what was said, oldest first."""
        return tuple(self._turns.get(key, ()))

    def add(self, key: Key, said: str, answered: str) -> None:
        """Keep a question and its answer."""
        turns = self._turns.setdefault(key, deque(maxlen=KEPT_TURNS))
        turns += (Turn(Role.USER, said), Turn(Role.ASSISTANT, answered))
        self._turns.move_to_end(key)
        while len(self._turns) > KEPT_CONVERSATIONS:
            self._turns.popitem(last=False)
