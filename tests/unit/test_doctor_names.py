"""Names that `doctor` says or checks: of a command, and of a model's provider."""

import shlex
import sys
from pathlib import Path

import pytest

from commands.doctor.installation import model_checks
from commands.doctor.server import temporal_command
from commands.doctor.table import State


def test_temporals_command_is_one_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name alone where the shell finds it, else its place beside Python."""
    beside = Path(sys.executable).with_name("temporal")
    (tmp_path / "temporal").touch(0o755)

    monkeypatch.setenv("PATH", "")
    hidden = temporal_command()
    monkeypatch.setenv("PATH", str(tmp_path))

    assert hidden == shlex.quote(str(beside))
    assert temporal_command() == "temporal"


@pytest.mark.parametrize(
    ("name", "state"),
    [("openai/gpt-x", "ok"), ("gpt-x", "ok"), ("foo/bar", "warning"), ("bar", "warning")],
)
def test_a_provider_that_is_not_known_is_not_called_right(name: str, state: State) -> None:
    """It may be one of LiteLLM's others, and may be mistyped."""
    checks = model_checks({"MULL_MODEL": name, "MULL_JUDGE_MODEL": name})

    assert [each.state for each in checks[:2]] == [state] * 2
    assert ("not checked" in checks[0].said) == (state == "warning")
