"""When the index files are saved: some time after a change, soon on request, and never continuously."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

SAVE_SHARE = 20  # after a save, none for this many times its duration: a large index must not be written all day


class SavePolicy:
    """Whether changes wait to be saved, since when, and how long the last save took."""

    def __init__(self, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Take how long a change may wait, and the clock, both in seconds."""
        self._every_s, self._clock = every_s, clock
        self._unsaved_since: float | None = None
        self._asap = False
        self._saved_at = self._took_s = 0.0

    @property
    def has_changes(self) -> bool:
        """Whether anything changed since the last save."""
        return self._unsaved_since is not None

    @property
    def is_due(self) -> bool:
        """Whether it is time to save."""
        now = self._clock()
        waited = self._unsaved_since is not None and (self._asap or now - self._unsaved_since > self._every_s)
        return waited and now - self._saved_at > SAVE_SHARE * self._took_s

    def changed(self) -> None:
        """Record that something changed."""
        if self._unsaved_since is None:
            self._unsaved_since = self._clock()

    def hasten(self) -> None:
        """Make pending changes due at once; does nothing without any."""
        self._asap = self.has_changes

    def postpone(self) -> None:
        """Restart the wait after a failed save."""
        self._unsaved_since = self._clock()

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Time a save; changes inside the block wait for the next one, and so does everything if it fails."""
        began = self._clock()
        self._unsaved_since, self._asap = None, False
        try:
            yield
        except BaseException:
            self.changed()
            raise
        finally:
            self._saved_at = self._clock()
            self._took_s = self._saved_at - began
