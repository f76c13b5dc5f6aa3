"""Names in a question lift what bears them and are not embedded."""

from __future__ import annotations

from infinite_memory.engine.entity_mentions import EntityIndex

NAMES = EntityIndex(
    ["speaker:caroline", "speaker:mary ann smith", "speaker:will", "travel", "project:apollo", "session:1"]
)


def test_a_speaker_is_left_out_of_what_is_embedded() -> None:
    asked = NAMES.read("When did Caroline's sister move?", {})
    assert asked.tag_keys == {"speaker:caroline"}
    assert asked.embedded == "When did sister move?"


def test_a_question_of_a_name_alone_is_embedded_whole() -> None:
    assert NAMES.read("Who is Caroline?", {}).embedded == "Who is Caroline?"


def test_other_tags_lift_but_stay_in_the_question() -> None:
    asked = NAMES.read("the travel budget of apollo", {})
    assert asked.tag_keys == {"travel", "project:apollo"}
    assert asked.embedded == "the travel budget of apollo"


def test_a_person_is_known_by_the_whole_and_the_first_name() -> None:
    assert NAMES.read("Where does Mary Ann Smith live?", {}).embedded == "Where does live?"
    assert NAMES.read("Where does Mary live?", {}).tag_keys == {"speaker:mary ann smith"}


def test_a_verb_is_no_name() -> None:
    assert NAMES.read("What will she do?", {}).tag_keys == frozenset()
    assert NAMES.read("What did Will do yesterday?", {}).tag_keys == {"speaker:will"}


def test_misspelt_words_are_embedded_as_they_were_meant() -> None:
    asked = NAMES.read("When did Carolne go to the grroup?", {"carolne": "caroline", "grroup": "group"})
    assert asked.tag_keys == {"speaker:caroline"}
    assert asked.embedded == "When did go to the group?"


def test_the_words_of_a_question_are_kept_as_they_were_written_too() -> None:
    asked = NAMES.read("¿Cuándo fue Carolne a la escuela?", {"carolne": "caroline", "escuela": "sequel"})
    assert (asked.embedded, asked.as_written) == ("¿Cuándo fue a la sequel?", "¿Cuándo fue a la escuela?")


def test_a_conversation_is_no_name() -> None:
    assert NAMES.read("what happened in 1", {}).tag_keys == frozenset()
