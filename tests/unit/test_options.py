"""Options that come from the fields of a request: their names, help, bounds and defaults."""

from typing import Any

import pytest
import typer

from commands import start
from commands.options import takes_fields
from reflection.critique.request import ReflectOnResultRequest
from reflection.multipath.request import Limits, MultiPathRequest
from reflection.run import Request
from reflection.sampling.request import SelfConsistencyRequest

# What a command takes by an option of another form: a file, a list, a flag.
OTHERWISE = {
    SelfConsistencyRequest: {"question", "prompt_template"},
    ReflectOnResultRequest: {"query", "draft", "sources", "judges", "guardrails"},
    MultiPathRequest: {"prompt", "judge", "tests", "packages", "limits"},
}


def options(name: str) -> dict[str, Any]:
    app = typer.Typer()
    start.register(app, {name})
    command: Any = typer.main.get_command(app)
    return {one.name: one for one in command.commands[name].params}


@pytest.mark.parametrize(
    ("name", "request_type"),
    [
        ("ask", SelfConsistencyRequest),
        ("reflect", ReflectOnResultRequest),
        ("agent", MultiPathRequest),
    ],
)
def test_every_field_has_its_option(name: str, request_type: type[Request]) -> None:
    """A field that is added to a request and forgotten on the command line is found here."""
    missing = set(request_type.model_fields) - set(options(name)) - OTHERWISE[request_type]

    assert missing == set()


def test_an_option_says_what_its_field_says() -> None:
    """Description, range and default stand once, in the request."""
    known = options("reflect")

    assert known["max_revisions"].help == "Regenerations at most; 0 to 10; 1 by default."
    assert known["panel"].metavar == "mean|median"
    assert "one of general, cost_sensitive," in known["criteria"].help


@pytest.mark.parametrize(
    ("name", "option", "flags"),
    [
        ("ask", "rule", ["--rule", "--entropy-mode"]),
        ("ask", "sample_timeout_seconds", ["--sample-timeout-seconds"]),
        ("reflect", "score_threshold", ["--score-threshold", "--confidence-threshold"]),
        ("reflect", "call_timeout_seconds", ["--call-timeout", "--call-timeout-seconds"]),
        ("agent", "review_timeout_seconds", ["--review-timeout"]),
    ],
)
def test_the_names_that_scripts_rely_on(name: str, option: str, flags: list[str]) -> None:
    """Short names and the source's own names stay."""
    assert options(name)[option].opts == flags


def test_what_is_on_by_default_is_switched_off() -> None:
    """A field that is true by default has an option that says no."""
    assert options("reflect")["reflect"].secondary_opts == ["--no-reflect"]
    assert options("agent")["creative"].secondary_opts == ["--no-creative"]


def test_an_option_that_is_not_given_is_none() -> None:
    """So that a preset, or the request, fills it in."""
    seen: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @takes_fields(Limits, {"Limits": ["wall_seconds", "memory_mb"]})
    def run(**fields: Any) -> None:
        seen.update(fields)

    app(["--memory-mb", "64"], standalone_mode=False)

    assert seen == {"wall_seconds": None, "memory_mb": 64}
