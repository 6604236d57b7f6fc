"""`starter.py compare` before anything is started: files, options and the estimate."""

import json
from pathlib import Path

import pytest

from tests.unit.measuring.commands import run

LINE = '{"question": "secret?", "gold": "42"}'


def written(folder: Path, *lines: str) -> str:
    file = folder / "questions.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"gold": "secret"}', '"question" is missing'),
        ('{"question": "secret", "gold": ["secret"]}', '"gold" is neither text'),
        ('{"question": "secret", "gold": true}', '"gold" is neither text'),
        ('{"question": "secret", "gold": "secret"}', '"gold" can\'t be read as number'),
        (f'{{"question": "{"secret" * 20_000}"}}', "at most 100,000"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(tmp_path: Path, line: str, said: str) -> None:
    """The message says which line and why, and never what stands in it."""
    result = run("compare", written(tmp_path, LINE, line), "--answers", "number")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "line 2: " in result.stderr
    assert said in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--methods", "single,guess"], "--methods: one or more of single,reflect"),
        (["--methods", ","], "--methods: one or more of"),
        (["--answers", "llm"], "llm needs a model"),
        (["--criteria", "taste"], "--criteria: one of general"),
        (["--judge", "a", "--judge", "a"], "two judges are the same model"),
        (["--max-responses", "2000"], "max_responses"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], said: str) -> None:
    """What is wrong is one line and exit code 2, before anything is paid for."""
    result = run("compare", written(tmp_path, LINE), *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("line", "options", "calls"),
    [
        (LINE, ["--methods", "single"], {"single": 1}),
        (
            LINE,
            ["--methods", "reflect", "--max-revisions", "2"],
            {"reflect, writing": 3, "reflect, judging": 3},
        ),
        (LINE, ["--methods", "self_consistency"], {"self_consistency": 10}),
        ('{"question": "q"}', ["--methods", "single"], {"single": 1, "scoring": 1}),
    ],
)
def test_the_estimate_has_every_call_that_may_be_made(
    tmp_path: Path, line: str, options: list[str], calls: dict[str, int]
) -> None:
    """Each revision brings a draft and its evaluation; without gold each answer is scored."""
    result = run("compare", written(tmp_path, line), "--estimate", "--json", *options)

    parts = json.loads(result.stdout)["parts"]
    assert {each["what"]: each["calls"] for each in parts} == calls
