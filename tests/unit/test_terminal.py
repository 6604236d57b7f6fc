"""A sheet in the terminal."""

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from commands.terminal import print_answer, print_review, print_sheet, print_steps, print_waiting
from mull.sheet import Sheet, Step, Text, Waiting
from tests.unit.runs import START
from tests.unit.sheets import ASKED, SHEETS, console, written


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("shown", SHEETS.values(), ids=SHEETS)
def test_it_fits_the_width(shown: Sheet, width: int) -> None:
    """No line is wider than the terminal, and nothing that a model wrote acts on it."""
    on = console(width, terminal=True)

    print_steps(on, shown.steps)
    print_sheet(on, shown, subject=True, decisions=True)
    print_review(on, shown)

    assert all(cell_len(line) <= width for line in written(on).splitlines())
    assert not {"\x1b", "\x07", "\x00"} & set(written(on))


def test_no_markup_is_obeyed() -> None:
    """Markup, emoji codes and escapes are shown as they are."""
    on = console(400)

    print_sheet(on, SHEETS["hostile"])

    assert "[red]x[/red] :smile: ␛[31m␇␀" in written(on)


@pytest.mark.parametrize("shown", SHEETS.values(), ids=SHEETS)
def test_every_flag_and_warning_is_printed(shown: Sheet) -> None:
    """Each has a row of its own."""
    on = console(2_000)

    print_sheet(on, shown)

    lines = written(on).splitlines()
    said = [line for line in lines if line.startswith(("attention", "warning", " " * 9))]
    assert len(said) >= len(shown.flags) + len(shown.warnings)


def test_steps_are_printed_once() -> None:
    """Each look prints what is new."""
    on = console()

    shown = print_steps(on, ASKED.steps[:1])
    shown = print_steps(on, ASKED.steps[:1], shown)
    shown = print_steps(on, ASKED.steps, shown)

    assert shown == 3
    assert [line[:46].rstrip() for line in written(on).splitlines()] == [
        "wave 1    5 of 10  0.75 ▇▇▇▇▇▇▁▁  entropy 0.81",
        "wave 2    6 of 10  0.60 ▇▇▇▇▇▁▁▁  entropy 0.97",
        "wave 3   10 of 10  0.78 ▇▇▇▇▇▇▁▁  entropy 0.76",
    ]


def test_a_narrow_terminal_cuts_a_line() -> None:
    """Where a step does not fit, its end is cut; in a pipe it stays whole."""
    step = Step(words="wave 1   " + "reason " * 20, below=("why",))
    narrow, pipe = console(70, terminal=True), console(70)

    print_steps(narrow, (step,))
    print_steps(pipe, (step,))

    assert [cell_len(line) for line in written(narrow).splitlines()] == [70, 5]
    assert len(written(pipe).splitlines()) == 2


def test_a_wait_is_told_with_its_command() -> None:
    """Whoever follows a run, or looks at it, sees that it waits, and what is asked in full."""
    on = console()

    print_waiting(on, "ask-how-much", Waiting(until=START, asked=("call 1: mail({})",)))
    print_sheet(on, ASKED.model_copy(update={"waiting": Waiting(until=None)}))

    assert written(on).startswith(
        "waits for a person until 2026-03-01 12:00:00 UTC:\n    mull review ask-how-much\n"
        "call 1: mail({})\n"
    )
    assert "waiting        for a person's review" in written(on)


def test_colour_only_in_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is obeyed in a terminal, which gets colours without it."""
    known = {"width": 80, "force_terminal": True, "legacy_windows": False}
    colour = Console(file=StringIO(), color_system="standard", no_color=False, **known)  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    without = Console(file=StringIO(), **known)  # type: ignore[arg-type]

    print_sheet(colour, ASKED)
    print_sheet(without, ASKED)

    assert "\x1b[32m" in written(colour)
    assert "\x1b[3" not in written(without)


@pytest.mark.parametrize(
    ("kind", "text", "printed"),
    [
        *(("plain", text, text) for text in ("exact", "two\n\n", " \t x ", "ü\u2028日本")),
        ("code", "x = 1", "x = 1\n"),
        ("markdown", "It is so.\n\n", "It is so.\n"),
    ],
)
def test_an_answer_is_written_to_the_letter(
    kind: str, text: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe it is what the result holds; a report or code ends with one line end."""
    print_answer(Text.model_validate({"title": "t", "content": text, "kind": kind}))

    said = capsys.readouterr()
    assert said.out == printed
    # Where both streams are one, what follows begins on a line of its own.
    assert said.err == ("" if printed.endswith("\n") else "\n")
