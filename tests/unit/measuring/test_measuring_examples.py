"""The files of examples/ that measuring commands take."""

from pathlib import Path

from commands.measuring.judges.labelled import read_examples
from commands.measuring.methods.questions import read_questions

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_labelled_drafts_have_both_classes_and_two_writers() -> None:
    """There are passes and fails, and each writer has some of both."""
    examples = read_examples(EXAMPLES / "labelled-drafts.jsonl")

    kinds = {(each.writer, each.label >= 0.5) for each in examples}
    assert len(examples) == 18
    assert kinds == {(f"made-up/{name}", side) for name in "ab" for side in (True, False)}


def test_every_question_has_a_right_answer() -> None:
    """Its gold can be read as a number."""
    questions = read_questions(EXAMPLES / "questions.jsonl", "number")

    assert [each.gold for each in questions] == [
        "308", "7.4", "129", "155", "142", "100", "2", "36", "60", "12",
    ]  # fmt: skip
