"""The texts of the scale bench: seeded sentences over thirty topics, each of its own meaning, and questions about them.

A topic is a line of things, of what is done with them and of circumstances; a text joins one of each with a person, a place and
a time. Nothing is read from anywhere, so every run of a seed gives the same texts on any machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

TOPICS = dict(
    line.split(": ", 1) for line in Path(__file__).with_name("topics.txt").read_text("utf-8").splitlines() if line
)
PEOPLE = [
    "Ada",
    "Boris",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Luca",
    "Mona",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Stefan",
    "Tessa",
    "Umar",
]
PLACES = [
    "Aarhus",
    "Basel",
    "Cork",
    "Delft",
    "Evora",
    "Fribourg",
    "Ghent",
    "Halle",
    "Izmir",
    "Jena",
    "Krakow",
    "Lublin",
    "Malmo",
    "Nantes",
    "Oulu",
    "Porto",
]
TIMES = [
    "yesterday",
    "last Sunday",
    "at noon",
    "in the evening",
    "this autumn",
    "on Monday",
    "two weeks ago",
    "over the holidays",
]
PER_TOPIC = 1000


@dataclass(frozen=True, slots=True)
class Topic:
    """What a topic's sentences are made of."""

    name: str
    things: tuple[str, ...]
    events: tuple[str, ...]
    circumstances: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> Topic:
        """Read one line of `TOPICS`."""
        things, events, circumstances = (
            tuple(one.strip() for one in part.split(",")) for part in TOPICS[name].split("|")
        )
        return cls(name, things, events, circumstances)


def parents(seed: int = 7) -> list[str]:
    """Give the different texts, `PER_TOPIC` of each topic, topic after topic."""
    rng = random.Random(seed)
    made: dict[str, None] = {}
    for name in TOPICS:
        topic, wanted = Topic.of(name), len(made) + PER_TOPIC
        while len(made) < wanted:
            person, place, when = rng.choice(PEOPLE), rng.choice(PLACES), rng.choice(TIMES)
            thing, event, how = (rng.choice(part) for part in (topic.things, topic.events, topic.circumstances))
            made[f"{person} in {place} told us {when} that the {thing} {event} {how}."] = None
    return list(made)


def variation(number: int) -> str:
    """Give a second sentence for the copy of a parent that is memory *number*, so that no two texts are equal."""
    rng = random.Random(number)
    return f"Noted by {rng.choice(PEOPLE)} for {rng.choice(PLACES)}, sheet {number}."


def questions(count: int, seed: int) -> list[str]:
    """Give *count* different questions, of 12 to 20 tokens, about things of all topics."""
    rng = random.Random(seed)
    names = list(TOPICS)
    made: dict[str, None] = {}
    while len(made) < count:
        topic = Topic.of(rng.choice(names))
        thing, event, how = (rng.choice(part) for part in (topic.things, topic.events, topic.circumstances))
        form = rng.choice((
            f"Who was it that said the {thing} {event} {how}, and in which town?",
            f"Do you remember what happened to the {thing} {how} near {rng.choice(PLACES)}?",
            f"What did {rng.choice(PEOPLE).lower()} tell us about the {thing} that {event} {rng.choice(TIMES)}?",
        ))  # fmt: skip
        if 10 <= len(form.split()) <= 18:
            made[form] = None
    return list(made)
