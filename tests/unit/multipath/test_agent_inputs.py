"""What `agent` refuses before a run begins."""

from pathlib import Path

import pytest
import typer

from commands.inputs import checked
from commands.start import read_tests, refuse_for_research
from reflection.multipath.request import MultiPathRequest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_add():\n    assert add(1, 2 == 3\n", ", line 2 is not Python: "),
        ("x = 1\n\x00", ""),
    ],
    ids=["syntax", "null byte"],
)
def test_tests_that_are_no_python_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """They would fail every draft, and each draft is paid for."""
    path = tmp_path / "test_add.py"
    path.write_text(text)

    with pytest.raises(typer.Exit) as ended:
        read_tests("--tests", path)

    assert ended.value.exit_code == 2
    assert f"Error: --tests: {path}{said}" in capsys.readouterr().err


def test_tests_that_are_python_are_read_as_they_are(tmp_path: Path) -> None:
    """Even where Python would warn of them."""
    path = tmp_path / "check.py"
    path.write_text("import re\nassert re.match('\\d', '1')\n")

    assert read_tests("--tests", path) == {"name": "check.py", "text": path.read_text()}


def test_what_is_for_code_is_refused_with_research(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be left out in silence."""
    with pytest.raises(typer.Exit) as ended:
        refuse_for_research("research", {"--tests": None, "--entry": "add"})

    assert ended.value.exit_code == 2
    assert "Error: --entry is for code, and --mode is research" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"mode": "guess"}, "--mode: should be 'research' or 'code'"),
        ({"packages": ["a;b"]}, "--packages: should match"),
        ({"limits": {"memory_mb": 1}}, "--memory-mb: should be greater"),
        ({"call_timeout_seconds": 0}, "--call-timeout: should be greater"),
        ({"prompt": ""}, "prompt: should have at least"),
        ({"seed": -1, "passages": 0}, "; --seed: should be greater"),
    ],
)
def test_an_error_names_the_option(
    capsys: pytest.CaptureFixture[str], fields: dict[str, object], said: str
) -> None:
    """Who types an option does not know the request's fields."""
    with pytest.raises(typer.Exit):
        checked(MultiPathRequest, {"prompt": "p", **fields})

    assert said in capsys.readouterr().err
