"""Help on two levels: what most people need of a command, and all of it."""

import os
import re

import pytest

import starter
from commands.command import option_of, options_of
from commands.lines import COMMANDS as LINES
from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import RetroformerTrainingRequest
from mull.batch.request import BatchRequest
from mull.request import Request
from tests import forks

REQUESTS: dict[str, type[Request]] = {
    **{name: loop.request for name, loop in LINES.items()},
    "retroformer": RetroformerRequest,
    "train": RetroformerTrainingRequest,
    "batch": BatchRequest,
}
# Of a terminal in which somebody asks for help.
COLUMNS, ROWS = 80, 40
NAMED = re.compile(r"^│ (--[a-z-]+)", re.MULTILINE)


def helped(*words: str, columns: int = COLUMNS, **known: str) -> str:
    """Return what a command says of itself."""
    environment = {**os.environ, "COLUMNS": str(columns), **known}
    done = forks.run("starter.py", *words, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", REQUESTS)
def test_help_shows_what_is_common_and_help_all_the_rest(name: str) -> None:
    """Whether a field's option is common stands at the field; a required one always is."""
    request = REQUESTS[name]
    fields, declared = request.model_fields, options_of(request)
    common = {one for one in declared if declared[one].common or fields[one].is_required()}
    named = {one: option_of(request, one) for one in declared}
    off = {one for one in declared if fields[one].default is True}
    named |= {one: f"--no-{one.replace('_', '-')}" for one in off}

    short, whole = helped(name, "--help"), helped(name, "--help-all")
    shown, every = (NAMED.findall(text) for text in (short, whole))

    assert {named[one] for one in common} <= set(shown)
    assert not {named[one] for one in declared.keys() - common} & set(shown)
    assert {*named.values(), "--id", "--json", "--detach"} <= set(every)
    assert set(shown) < set(every)
    assert len(shown) <= 17
    assert (
        len(every) == len(set(every)) == len(shown) + int(re.findall(r"for (\d+) more", short)[0])
    )
    assert f"See mull {name} --help-all for" in short
    assert ("Exit codes:" in whole, "Exit codes:" in short) == (True, False)
    assert [re.findall(r"^    mull .*", text, re.MULTILINE) != [] for text in (short, whole)] == [
        True, True,
    ]  # fmt: skip


def test_the_help_of_ask_fits_a_screen() -> None:
    """The usage, the examples and a dozen options are read without scrolling."""
    lines = helped("ask", "--help").splitlines()

    assert len(lines) < ROWS
    assert max(map(len, lines)) <= COLUMNS
    assert 'mull ask "Is 91 prime?"' in lines[5]


def test_what_is_required_comes_first() -> None:
    """Whoever trains for the first time sees at once what to give."""
    for level in ("--help", "--help-all"):
        options = NAMED.findall(helped("train", level))

        assert options[:4] == ["--tasks", "--env", "--reflector", "--base-model"]


def test_the_commands_stand_under_what_they_are_for() -> None:
    """Each has one line, which says when to take it."""
    said = helped("--help")
    headings = re.findall(r"^╭─ (.*?) ─", said, re.MULTILINE)

    assert headings == ["Options", *starter.COMMANDS]
    for name, (_, line) in ((n, c) for some in starter.COMMANDS.values() for n, c in some.items()):
        assert re.search(rf"^│ {name} +{re.escape(line.replace('`', ''))} +│$", said, re.MULTILINE)


@pytest.mark.parametrize("words", [(), ("dev",), ("ask",), ("review",)], ids=" ".join)
def test_a_flag_has_no_type(words: tuple[str, ...]) -> None:
    """An option without a value is shown without one, such as --help itself."""
    said = helped(*words, "--help")

    assert "bool" not in said
    assert re.search(r"^│ --help  +Show this message and exit\.", said, re.MULTILINE)


def test_a_command_to_copy_stays_whole() -> None:
    """Examples are never broken, however narrow the terminal, and colours are for terminals."""
    narrow = helped("reflect", "--help", columns=40, FORCE_COLOR="")

    assert '    mull reflect "Document parse_date()" --draft draft.md --review-below 0.6' in narrow
    assert "\x1b" not in narrow


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("mull ask --help", ["--help-all", "--help"]),
        ("mull ask --entropy-w", ["--entropy-weight"]),
        ("mull turn hello --think-level ", ["off", "low", "medium", "high"]),
        ("mull ref", ["reflect", "reflexion"]),
    ],
)
def test_a_shell_completes_what_help_leaves_out(typed: str, wanted: list[str]) -> None:
    """Every command, option and choice is offered, whether help shows it or not."""
    at = str(typed.count(" "))
    done = helped(_MULL_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=at)

    assert done.split() == wanted
