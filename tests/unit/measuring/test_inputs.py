"""What `calibrate` and `compare` read and refuse before anything is started."""

from functools import partial
from pathlib import Path

import pytest

from commands.measuring.calibrate import read_example
from commands.measuring.compare import read_question
from commands.measuring.plans import read_lines
from tests.unit.measuring.commands import run, written

EXAMPLES = Path(__file__).parents[3] / "examples"
LABELLED = '{"query": "Why?", "draft": "secret", "label": 1}'
QUESTION = '{"question": "secret?", "gold": "42"}'
JUDGE = ("--judge", "a")


@pytest.mark.parametrize(
    ("label", "read"),
    [(0.25, 0.25), (1, 1.0), (True, 1.0), (False, 0.0), ("pass", 1.0), ("Fail", 0.0)],
)
def test_labels(label: object, read: float) -> None:
    """A label is a number from 0 to 1, a truth value, or pass or fail."""
    assert read_example({"query": "q", "draft": "d", "label": label, "id": 7}).label == read


def test_the_examples_can_be_read() -> None:
    """The labelled drafts have both classes by two writers, and every question a number as gold."""
    examples = read_lines(EXAMPLES / "labelled-drafts.jsonl", read_example, "")
    questions = read_lines(EXAMPLES / "questions.jsonl", partial(read_question, "number"), "")

    kinds = {(one.writer, one.label >= 0.5) for one in examples}
    assert len(examples) == 18
    assert kinds == {(f"made-up/{name}", side) for name in "ab" for side in (True, False)}
    assert [one.gold for one in questions] == [
        "308", "7.4", "129", "155", "142", "100", "2", "36", "60", "12",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{secret", "not JSON; each line must be one JSON object"),
        ("[" * 100_000, "not JSON"),
        ('["secret"]', "not a JSON object"),
        ('{"draft": "secret", "label": 1}', '"query" is missing'),
        ('{"query": "secret", "draft": "  ", "label": 1}', '"draft" is missing'),
        ('{"query": "q", "draft": "secret"}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": 1.01}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": NaN}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": "good"}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": 1, "writer": 3}', '"writer" is missing'),
        (f'{{"query": "q", "draft": "{"secret" * 20_000}", "label": 1}}', "the limit of 92,857"),
    ],
)
def test_a_wrong_labelled_draft(tmp_path: Path, line: str, said: str) -> None:
    """The message says which line and why, and never what stands in it."""
    refused(("calibrate", written(tmp_path, LABELLED, "", line), *JUDGE), "line 3: ", said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"gold": "secret"}', '"question" is missing'),
        ('{"question": "secret", "gold": ["secret"]}', '"gold" is not text, a number or null'),
        ('{"question": "secret", "gold": true}', '"gold" is not text, a number or null'),
        ('{"question": "secret", "gold": "secret"}', '"gold" can\'t be read as number'),
        (f'{{"question": "{"secret" * 20_000}"}}', "the limit of 100,000"),
    ],
)
def test_a_wrong_question(tmp_path: Path, line: str, said: str) -> None:
    """The message says which line and why, and never what stands in it."""
    file = written(tmp_path, QUESTION, line)

    refused(("compare", file, "--answers", "number"), "line 2: ", said)


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("calibrate", (), "name a judge with --judge MODEL"),
        ("calibrate", (*JUDGE, *JUDGE), "the same model is given twice"),
        (
            "calibrate",
            (*JUDGE, "--criteria", "taste"),
            "'taste' is not one of 'general'",
        ),
        ("calibrate", (*JUDGE, "--html", "/none/such/page.html"), "there is no folder /none/such"),
        ("calibrate", (*JUDGE, "--budget-usd", "0"), ": should be greater than 0"),
        ("calibrate", (*JUDGE, "--id", "i" * 86), "--id: at most 85 bytes"),
        (
            "compare",
            ("--methods", "single,guess"),
            "--methods: expected one or more of single,reflect",
        ),
        ("compare", ("--methods", ","), "--methods: expected one or more of"),
        ("compare", ("--answers", "llm"), "llm needs a model"),
        ("compare", ("--criteria", "taste"), "'taste' is not one of 'general'"),
        ("compare", (*JUDGE, *JUDGE), "two judges are the same model"),
        ("compare", ("--max-responses", "2000"), "responses"),
    ],
)
def test_wrong_options(tmp_path: Path, command: str, options: tuple[str, ...], said: str) -> None:
    """What is wrong is one line and exit code 2, before anything is paid for."""
    line = LABELLED if command == "calibrate" else QUESTION

    refused((command, written(tmp_path, line), *options), said)


def test_files_that_are_empty_or_too_long(tmp_path: Path) -> None:
    """The form of a line is shown; 501 drafts, each four times, are more than a batch takes."""
    refused(("calibrate", written(tmp_path, ""), *JUDGE), "is empty: expected lines like")
    file = written(tmp_path, *[LABELLED] * 501)
    refused(("calibrate", file, *JUDGE, "--repeats", "3"), "2,004 runs exceed the limit of 2,000")


def refused(arguments: tuple[str, ...], *said: str) -> None:
    """Expect exit code 2, all of this on standard error, and no word of the file."""
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert all(words in result.stderr for words in said), result.stderr
    assert "secret" not in result.stderr
