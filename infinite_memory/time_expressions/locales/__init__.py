"""Times in the languages that have no table here, read with the locale data of ``dateparser``.

`search_locales` is asked only where the grammar found nothing. A time must be made of words that the data of one language has as
time words, whole words all of them; what they mean is worked out here, by the same conventions as everywhere. `read_phrase` is
the last resort, for a text that the caller says is a time: dateparser's own parser, narrowly asked.
"""

from __future__ import annotations

from infinite_memory.time_expressions.locales.search import LocaleHit, read_phrase, search_locales

__all__ = ["LocaleHit", "read_phrase", "search_locales"]
