"""Entity mentions in a question: tags, and the persons among them, whose names are not embedded.

A small embedding model overweights names: "When did Ada move?" is nearer to "Hi Ada!" than to what Ada said about moving. So
names of speakers are left out of the embedded question (never all of it), and memories with the named tag are boosted instead. On
public conversations that doubles the recall of vector search; questions without names are unaffected.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infinite_memory.index.base import VectorIndex, call
from infinite_memory.models import CONVERSATION_PREFIXES, SPEAKER_PREFIXES
from infinite_memory.text.stopwords import STOP_WORDS
from infinite_memory.text.tokenizer import tokenize

MAX_NAME_LENGTH = 4  # words
MANY_TAGS = 2000  # tags indexed without a thread
_TOKEN = re.compile(r"\S+")
_Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed question: the keys of the tags that it names, and the text to embed instead of it.

    ``as_written`` is that text without spelling corrections: a word that no memory has may be from another language.
    """

    tag_keys: frozenset[str]
    embedded: str
    as_written: str


class EntityIndex:
    """The names in tags, indexed by their words. A speaker is also found by the first of several names."""

    def __init__(self, tag_keys: Sequence[str]) -> None:
        self._keys: dict[_Name, set[str]] = {}
        self._persons: set[_Name] = set()
        self.count = 0
        self.add(tag_keys)

    def add(self, tag_keys: Sequence[str]) -> None:
        """Add the names in more tags; `count` is the number of tags added so far."""
        for key in tag_keys:
            if not key.startswith(CONVERSATION_PREFIXES):
                self._enter(key)
        self.count += len(tag_keys)

    def _enter(self, key: str) -> None:
        name = tuple(tokenize(key.rpartition(":")[2]))
        if not name or len(name) > MAX_NAME_LENGTH or all(word.isdigit() for word in name):
            return
        is_person = key.startswith(SPEAKER_PREFIXES)
        for form in {name, name[:1]} if is_person else {name}:
            self._keys.setdefault(form, set()).add(key)
            if is_person:
                self._persons.add(form)

    def read(self, question: str, corrected: Mapping[str, str]) -> ParsedQuery:
        """Parse *question*, with misspelt words replaced as in *corrected*."""
        tokens = _TOKEN.findall(question)
        if not self._keys and not corrected:  # no names to find, and no corrections
            as_written = " ".join(tokens) or question
            return ParsedQuery(frozenset(), as_written, as_written)
        words = [_word(token) for token in tokens]
        meant = [corrected.get(word, word) for word in words]
        respelt = [
            token if word == original else _respelt(token, word)
            for token, original, word in zip(tokens, words, meant, strict=True)
        ]
        keys: set[str] = set()
        remaining: list[int] = []
        position = 0
        while position < len(tokens):
            size = self._longest(tokens, meant, position)
            name = tuple(meant[position : position + size])
            if size:
                keys |= self._keys[name]
            if not size or name not in self._persons:
                remaining += range(position, position + max(1, size))
            position += max(1, size)
        if not any(word not in STOP_WORDS for index in remaining for word in tokenize(respelt[index])):
            remaining = list(range(len(tokens)))
        embedded, as_written = (" ".join(form[index] for index in remaining) or question for form in (respelt, tokens))
        return ParsedQuery(frozenset(keys), embedded, as_written)

    def _longest(self, tokens: Sequence[str], words: Sequence[str], position: int) -> int:
        """Return the length in words of the name at *position*, 0 for none."""
        for size in range(min(MAX_NAME_LENGTH, len(words) - position), 0, -1):
            name = tuple(words[position : position + size])
            if name in self._keys and (size > 1 or self._is_meant(tokens, name[0], position)):
                return size
        return 0

    def _is_meant(self, tokens: Sequence[str], word: str, position: int) -> bool:
        """True if a word is meant as a name, Will and not "will": a stop word counts only if capitalised within a sentence."""
        return (word not in STOP_WORDS and len(word) > 1) or (position > 0 and tokens[position][:1].isupper())


class EntityNames:
    """The names in the tags of the current index, updated as tags are added. Use from one event loop only."""

    def __init__(self) -> None:
        self._names = EntityIndex(())
        self._index: VectorIndex | None = None

    async def learn(self, index: VectorIndex) -> None:
        """Add the names in tags created since the last question; the list of tags only grows."""
        if self._index is not index:
            self._names, self._index = EntityIndex(()), index
        names, old_count = self._names, self._names.count
        tags = await call(index, lambda: index.tags(old_count, MANY_TAGS + 1))
        if len(tags) > MANY_TAGS:
            fresh = await asyncio.to_thread(_learn_all, index)
            if self._names is names and fresh.count > names.count:  # else another question was faster
                self._names = fresh
        elif self._names is names and names.count == old_count:  # else another question was faster
            names.add(tags)

    def read(self, question: str, corrected: Mapping[str, str]) -> ParsedQuery:
        """Parse *question* with the known tags; *corrected* as in `EntityIndex.read`."""
        return self._names.read(question, corrected)


def _learn_all(index: VectorIndex) -> EntityIndex:
    """Return the names in all tags."""
    names = EntityIndex(())
    while tags := index.tags(names.count, MANY_TAGS):
        names.add(tags)
    return names


def _word(token: str) -> str:
    words = tokenize(token)
    return words[0] if len(words) == 1 else ""


def _respelt(token: str, word: str) -> str:
    core = token.rstrip(".,;:!?)\"'”»")
    return word + token[len(core) :]
