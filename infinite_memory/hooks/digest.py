"""Extractive summary of a session, built from its own sentences: topics, decisions, open questions and files.

Nothing is rephrased and no model is used: sentences are chosen by the words that they share with several turns, and by words that
mark a decision or an open question. The same turns always produce the same digest. Sentences are split in every script; decisions
and open questions are detected by words of eleven languages, matched by prefix so that inflection does not matter.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from infinite_memory.contracts.native.serializers import cut_text
from infinite_memory.hooks.transcript import ASSISTANT, USER
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.stopwords import FILLERS, content_words
from infinite_memory.text.tokenizer import tokenize

ABOUT, DECIDED, OPEN, FILES = "About", "Decided", "Open", "Files"
MAX_ABOUT, MAX_DECIDED, MAX_OPEN, MAX_FILES = 3, 4, 3, 8
MIN_TURNS = 2
MIN_WORDS = 4  # in a usable sentence; scripts without spaces count pairs of characters
MAX_SENTENCE_CHARS = 220
MAX_TURN_CHARS = 20_000  # of a turn are read: longer ones are logs
LAST_TURNS = 4  # turns in which an open question still counts as open
FIRST_PROMPT_WEIGHT, USER_WEIGHT = 2.0, 1.3  # the user's words name the topic

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s+")
_NO_SENTENCE = re.compile(r"^\s*(?:\||[-=_*]{3,}|[{}\[\]();<>])")
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*_]*\s+|(?<=[。！？])")
_QUESTION = re.compile(r"[?？؟][\"'”’)\]*_]*$")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S+")
_EXTENSIONS = (
    "py|pyi|js|mjs|cjs|ts|jsx|tsx|vue|svelte|md|rst|txt|toml|ya?ml|json|jsonl|ini|cfg|conf|env|lock|xml|html|css|scss|sql|sh|bash|ps1|rs|go|java|"
    "kt|swift|c|h|cc|cpp|hpp|cs|rb|php|lua|ex|exs|scala|csv|ipynb|proto|tf|gradle|service|dockerfile"
)
_FILE = re.compile(
    rf"(?<![\w./\\~-])(?:[\w.~-]{{1,80}}[/\\]){{0,12}}[\w.-]{{0,80}}\w\.(?:{_EXTENSIONS})(?![\w/\\-]|\.\w)",
    re.IGNORECASE,
)

_DECIDES = (
    r"\bdecid|\bdecision|\bagreed?\b|\bsettled? on|\bgoing with|\bgo with|\bwe chose|\bi chose|\blet'?s (?:use|keep|switch|drop|stay)"
    r"|\bwe(?:'ll| will) (?:use|keep|switch|drop|ship|stay)|\bfrom now on|\balways use|\bnever use|\bi prefer|\bwe prefer",
    r"\bentschieden|\bentschied|\bentscheid|\bbeschlossen|\bvereinbart|\bwir (?:nehmen|verwenden|benutzen|bleiben)"
    r"|\bab (?:jetzt|sofort)\b|\bbevorzug",
    r"\bdécid|\bon (?:prend|garde|utilise)|\bnous (?:utilis|gard|pren)|\bconvenu|\bdésormais|\bavons choisi|\bje préfère",
    r"\bdecidi|\bdecisión|\bvamos a (?:usar|utilizar)|\busaremos|\bacordamos|\bacordado|\ba partir de ahora|\belegimos|\bprefiero",
    r"\bdeciso|\bdecision|\buseremo|\bconcordato|\bd'ora in poi|\babbiamo scelto|\bpreferisco",
    r"\bdecidimos|\bdecidi\b|\bdecisão|\bvamos usar|\bcombinamos|\ba partir de agora|\bescolhemos|\bprefiro",
    r"\bbesloten|\bbeslist|\bwe gebruiken|\bafgesproken|\bvoortaan|\bgekozen voor|\bvoorkeur",
    r"\bрешил|\bрешено|\bрешени|\bдоговорил|\bбудем использ|\bотныне|\bвыбрали|\bпредпоч",
    "决定|決定|我们用|我们使用|我們用|我們使用|采用|採用|改用|商定|统一用|統一用|从现在起",
    "決め|採用|にします|に決|使うことに|今後は|統一",
    "결정|하기로|정했|앞으로는|채택",
)
_STAYS_OPEN = (
    r"\btodo\b|\bopen question|\bstill (?:open|needs?|missing|to do|unclear)|\bnot (?:yet|decided)|\bnext step"
    r"|\bremains to|\bto be (?:decided|done)",
    r"\bnoch (?:nicht|offen|zu)\b|\bnächster schritt|\boffene frage|\bsteht noch aus",
    r"\bà faire|\bpas encore|\breste à|\bprochaine étape",
    r"\bpendiente|\btodavía no|\baún no|\bqueda por|\bpróximo paso|\bfalta\b",
    r"\bda fare|\bnon ancora|\bresta da|\bprossimo passo",
    r"\bpendente|\bainda não|\bfalta\b|\bpróximo passo",
    r"\bnog (?:niet|te)\b|\bvolgende stap",
    r"\bещё не|\bеще не|\bосталось|\bследующий шаг|\bнужно будет",
    "待办|待辦|未解决|未解決|还没|還沒|尚未|下一步",
    "未対応|まだ|次の|未定|残って",
    "아직|남아|다음 단계",
)
_DECISION = re.compile("|".join(_DECIDES), re.IGNORECASE)
_REMAINING = re.compile("|".join(_STAYS_OPEN), re.IGNORECASE)


class Said(NamedTuple):
    """One turn, with the id of its memory."""

    memory_id: str
    speaker: str | None
    text: str
    at: dt.datetime


class Digest(NamedTuple):
    """The digest of a session, and the memories that it quotes."""

    text: str
    sources: tuple[str, ...]


class _Sentence(NamedTuple):
    """A sentence and its position: the number of its turn, and its own within it."""

    turn: int
    number: int
    text: str
    is_question: bool
    words: frozenset[str]


def make_digest(turns: Sequence[Said]) -> Digest | None:
    """Return the digest of *turns*, which are oldest first; None if they are too few or have no topic."""
    if len(turns) < MIN_TURNS:
        return None
    sentences = [sentence for number, turn in enumerate(turns) for sentence in _sentences(number, turn.text)]
    about = _topics(sentences, turns)
    if not about:
        return None
    decided = _take_first([sentence for sentence in reversed(sentences) if _decides(sentence)], MAX_DECIDED)
    speakers = {turn.speaker for turn in turns}
    last_of_others = {
        speaker: max((number for number, turn in enumerate(turns) if turn.speaker != speaker), default=-1)
        for speaker in speakers
    }
    remaining = _take_first(
        [sentence for sentence in reversed(sentences) if _stays_open(sentence, turns, last_of_others)], MAX_OPEN
    )
    files = _files(turns)
    lines, sources, shown = [], dict[int, None](), set[str]()
    for label, chosen in ((DECIDED, decided), (OPEN, remaining), (ABOUT, about)):
        for chosen_sentence in sorted(chosen):
            if chosen_sentence.text.casefold() not in shown:
                shown.add(chosen_sentence.text.casefold())
                lines.append((label, chosen_sentence.text))
                sources[chosen_sentence.turn] = None
    order = (ABOUT, DECIDED, OPEN)
    text = "\n".join(f"{label}: {sentence}" for label, sentence in sorted(lines, key=lambda line: order.index(line[0])))
    if files:
        text += f"\n{FILES}: {', '.join(files)}"
        for file in files:
            sources[next(number for number, turn in enumerate(turns) if file in turn.text)] = None
    return Digest(text, tuple(turns[number].memory_id for number in sorted(sources)))


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, line by line; code, tables and horizontal rules are skipped."""
    sentences = []
    for line in _CODE.sub("\n", text[:MAX_TURN_CHARS]).split("\n"):
        if not _NO_SENTENCE.match(line):
            sentences += [sentence.strip() for sentence in _END.split(_ITEM.sub("", line).replace("**", ""))]
    return [sentence for sentence in sentences if sentence]


def _sentences(turn: int, text: str) -> list[_Sentence]:
    """Return the usable sentences of a turn."""
    sentences = []
    for number, sentence in enumerate(split_sentences(text)):
        words = tokenize(sentence)
        if len(words) >= MIN_WORDS:
            excerpt = cut_text(" ".join(sentence.split()), MAX_SENTENCE_CHARS)
            sentences.append(_Sentence(turn, number, excerpt, _QUESTION.search(sentence) is not None, _stems(words)))
    return sentences


def _stems(words: Iterable[str]) -> frozenset[str]:
    distinctive = [
        word for word in content_words(list(words)) if word not in FILLERS and (len(word) > 2 or not word.isascii())
    ]
    return frozenset(stem_words(distinctive))


def _topics(sentences: Sequence[_Sentence], turns: Sequence[Said]) -> list[_Sentence]:
    """Choose the sentences that share most words with other turns, each word counted once; the user's sentences weigh more.

    A word in nearly every turn weighs as little as a word in a single one (*SumBasic*, Nenkova and Vanderwende 2005, with the share
    of turns instead of the share of words, so that stop words of a language without a stop list weigh little).
    """
    spread: Counter[str] = Counter()
    for _, group in itertools.groupby(sentences, key=lambda sentence: sentence.turn):
        spread.update(frozenset().union(*(sentence.words for sentence in group)))
    total = len(turns) + 1
    weights = {word: count / total * (1 - count / total) for word, count in spread.items()}
    first = next((sentence for sentence in sentences if turns[sentence.turn].speaker == USER), None)

    def value(sentence: _Sentence) -> tuple[float, int, int]:
        share = sum(sorted(weights[word] for word in sentence.words)) / (len(sentence.words) + 3)
        factor = (
            FIRST_PROMPT_WEIGHT if sentence == first else USER_WEIGHT if turns[sentence.turn].speaker == USER else 1.0
        )
        return share * factor, -sentence.turn, -sentence.number

    chosen: list[_Sentence] = []
    candidates = [sentence for sentence in sentences if sentence.words]
    while candidates and len(chosen) < MAX_ABOUT:
        best = max(candidates, key=value)
        if value(best)[0] <= 0:
            break
        chosen.append(best)
        weights.update(dict.fromkeys(best.words, 0.0))
        candidates.remove(best)
    return chosen


def _decides(sentence: _Sentence) -> bool:
    return not sentence.is_question and _DECISION.search(sentence.text) is not None


def _stays_open(sentence: _Sentence, turns: Sequence[Said], last_of_others: Mapping[str | None, int]) -> bool:
    """True for an unanswered question, and for a remaining task named in the last turns.

    Args:
        last_of_others: For each speaker, the number of the last turn by anybody else.
    """
    if sentence.is_question:
        return last_of_others[turns[sentence.turn].speaker] <= sentence.turn
    is_last = sentence.turn >= len(turns) - LAST_TURNS
    return (
        is_last and turns[sentence.turn].speaker in (USER, ASSISTANT) and _REMAINING.search(sentence.text) is not None
    )


def _take_first(sentences: Iterable[_Sentence], limit: int) -> list[_Sentence]:
    """Return the first *limit* sentences with distinct texts."""
    distinct: dict[str, _Sentence] = {}
    for sentence in sentences:
        distinct.setdefault(sentence.text.casefold(), sentence)
    return list(distinct.values())[:limit]


def _files(turns: Sequence[Said]) -> list[str]:
    """Return the files mentioned, most frequent first."""
    counts = Counter(file for turn in turns for file in set(_FILE.findall(_URL.sub(" ", turn.text[:MAX_TURN_CHARS]))))
    return [file for file, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_FILES]]
