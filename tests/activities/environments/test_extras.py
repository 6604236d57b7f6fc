import sys

import pytest

from activities.environments.port import Maker, TaskError, TaskRef
from activities.environments.puzzles import Puzzles, check_expression
from activities.environments.textworld_games import (
    FORBIDDEN,
    TextWorldGames,
    command_in,
    settings_of,
)


@pytest.mark.parametrize(
    ("extra", "module", "task"),
    [("textworld", "textworld", "simple"), ("puzzles", "sympy", "chain_sum")],
)
def test_without_an_extra(
    monkeypatch: pytest.MonkeyPatch, extra: str, module: str, task: str
) -> None:
    """A game's or a puzzle's task says which extra to install."""
    monkeypatch.setitem(sys.modules, module, None)
    kinds: dict[str, Maker] = {"textworld": TextWorldGames, "puzzles": Puzzles}

    with pytest.raises(TaskError, match=rf"pip install '\.\[{extra}\]'"):
        kinds[extra](TaskRef(environment=extra, task=task)).reset(1)


@pytest.mark.parametrize("task", ["", "chain sum", "chain_sum:", "chain_sum:-1", "../chain_sum"])
def test_unreadable_puzzles(task: str) -> None:
    """A task that names no dataset is refused, with an example."""
    with pytest.raises(TaskError, match="such as chain_sum:3"):
        Puzzles(TaskRef(environment="puzzles", task=task)).reset(1)


@pytest.mark.parametrize(
    ("symbolic", "text"),
    [
        *[(True, "3*(4 + 5)/2"), (True, "-x**2 + 3*sin(2*x)"), (True, "exp(x) + C")],
        *[(True, "Rational(1, 3)"), (True, "acosh(y)*pi"), (True, "[1, 2]")],
        *[(False, "[[1, 2], [3, 4]]"), (False, "('a', 'b')"), (False, "['_', 'Q']")],
        (False, "1 + 2 * 0x3f"),
    ],
)
def test_mathematics_and_literals(symbolic: bool, text: str) -> None:
    """They are evaluated as they are, and sums of literals."""
    assert check_expression(text, symbolic=symbolic) == text


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()", "exit()", "x.real", "(lambda: 1)()", "[print][0]()",
        "[x for x in (1, 2)]", "f'{exit()}'", "sin(*[1])", "sin(x=1)", "globals", "x := 1",
        "x\nexit()", "sin('exit\\x28\\x29')", "\uff45xit()",
    ],
)  # fmt: skip
def test_programs_are_no_answers(text: str, symbolic: bool) -> None:
    """What names, calls or reaches anything else is not evaluated."""
    with pytest.raises((ValueError, SyntaxError)):
        check_expression(text, symbolic=symbolic)


def test_strings_are_no_mathematics() -> None:
    """Sympy would evaluate a string in an expression, so that none may be in one."""
    with pytest.raises(ValueError, match="neither a literal nor mathematics"):
        check_expression("['exit()']", symbolic=True)


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("open the box", "open the box"),
        ("Action 1: Open the box", "open the box"),
        ("Thought 1: the key is in it.\nAction 1: open box\n", "open box"),
        ("I look around first.\n\nlook", "look"),
        ("> go north", "go north"),
        ("**Action:** `take key`", "take key"),
        ("Action: take key\nThen I will see.", "take key"),
        ('Action 2: go east\nAction 3: "go west."', "go west"),
        ("```\ntake key from box\n```", "take key from box"),
        ("", ""),
        ("x" * 500, "x" * 190),
    ],
)
def test_commands(action: str, command: str) -> None:
    """A command is found in what models write around it."""
    assert command_in(action) == command


@pytest.mark.parametrize(
    ("command", "forbidden"),
    [
        *((word, True) for word in ("save", "restart", "undo", "script", "transcriptions", "q")),
        *((words, True) for words in ("look. save", "look. q", "tw-x")),
        *((words, False) for words in ("take type q latchkey", "read manuscript", "take keys")),
    ],
)
def test_forbidden_commands(command: str, forbidden: bool) -> None:
    """Words for the interpreter are not for the game, and words of the game are."""
    assert bool(FORBIDDEN.search(command)) == forbidden


@pytest.mark.parametrize(
    ("task", "name", "settings"),
    [
        ("coin", "coin_collector", {"level": 1}),
        ("tw-treasure_hunter:12", "treasure_hunter", {"level": 12}),
        ("Treasure-Hunter: level=3", "treasure_hunter", {"level": 3}),
        ("custom:5,10,4", "custom", {"rooms": 5, "objects": 10, "quest": 4}),
        ("custom:quest=3,rooms=2", "custom", {"rooms": 2, "objects": 1, "quest": 3}),
        ("simple:goal=none", "simple", {"rewards": "dense", "goal": "none", "test": False}),
    ],
)
def test_games(task: str, name: str, settings: dict[str, object]) -> None:
    """A task names a game and its settings, in short or as TextWorld names them."""
    assert settings_of(task) == (name, settings)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("", "no game"),
        ("chess", "no game 'chess'; it has simple, coin_collector"),
        ("coin:high", "'high' is not a setting of coin_collector, or too large; it has level=1"),
        ("coin:1,2", "'2' is not a setting"),
        ("coin:level=yes", "'level=yes' is not a setting"),
        ("custom:31", "too large; it has rooms=1, objects=1, quest=1"),
        ("cooking:open=2", "'open=2' is not a setting"),
    ],
)
def test_unknown_games(task: str, message: str) -> None:
    """A task that TextWorld lacks is refused, with what it has."""
    with pytest.raises(TaskError, match=message):
        settings_of(task)
