"""`starter.py replay`: what it refuses, each with one clear line and exit code 2."""

from pathlib import Path

import pytest

from tests.unit.replaying import UNANIMOUS, run, written


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([UNANIMOUS, "", "{'id': 1}"], "line 3: not JSON; each line is one JSON object"),
        (['{"answers": [NaN]}'], 'line 1: an answer in "answers" is neither text'),
        (["[1]"], "line 1: not a JSON object"),
        (["[" * 100_000], "line 1: not JSON"),
        (['{"id": 1, "gold": "4"}'], 'line 1: "answers" is missing'),
        (['{"answers": []}'], 'line 1: "answers" is missing, or is no list with an answer in it'),
        (['{"answers": "4"}'], 'line 1: "answers" is missing'),
        (['{"answers": [["4"]]}'], 'line 1: an answer in "answers" is neither text'),
        (['{"gold": ["4"], "answers": ["4"]}'], 'line 1: "gold" is neither text'),
        (['{"answers": ["4", "5"], "ok": [1]}'], "line 1: 1 values in ok for 2 answers"),
        (['{"answers": ["4"], "ok": [2]}'], 'line 1: "ok" has something else than 0 and 1'),
        (['{"answers": ["4"], "ok": [[1]]}'], 'line 1: "ok" has something else than 0 and 1'),
        (['{"answers": ["4"], "ok": 1}'], 'line 1: "ok" is no list'),
        (['{"gold": " ", "answers": ["4"]}'], "line 1: gold can't be read as an answer"),
        ([""], "is empty: give it lines like"),
    ],
)
def test_bad_files(tmp_path: Path, lines: list[str], message: str) -> None:
    """A file that is not as it should be gets one line on standard error, and exit code 2."""
    result = run(written(tmp_path, *lines))

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--answers", "llm"], "llm needs a model"),
        (["--answers", "words"], "--answers takes exact, text, number, choice"),
        (["--rule", "majority"], "no such rule: take combined, confidence_only, entropy_only"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], message: str) -> None:
    """An option that is not known gets one line that says what there is, and exit code 2."""
    result = run(written(tmp_path, UNANIMOUS), *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options", [["--max-responses", "0"], ["--max-responses", "1001"], ["--reorderings", "0"]]
)
def test_options_out_of_range(tmp_path: Path, options: list[str]) -> None:
    """A number that is out of range is refused with exit code 2."""
    result = run(written(tmp_path, UNANIMOUS), *options)

    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("name", "message"), [("absent.jsonl", "No such file"), ("", "Is a directory")]
)
def test_no_file(tmp_path: Path, name: str, message: str) -> None:
    """A file that is not there, or is a folder, gets one line and exit code 2."""
    result = run(str(tmp_path / name))

    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
