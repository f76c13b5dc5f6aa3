"""Times in languages without a table here, parsed with the locale data of ``dateparser``.

`search_locales` is called only if the grammar found nothing. A time must consist of whole words that the data of one language has as
time words; their meaning is computed here, by the same conventions as everywhere. `read_phrase` is
the last resort, for a text that the caller says is a time: dateparser's own parser, restricted.
"""

from __future__ import annotations

from infinite_memory.time_expressions.locales.search import LocaleHit, read_phrase, search_locales

__all__ = ["LocaleHit", "read_phrase", "search_locales"]
