from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from commands.rendering.convergence import decisions_table, print_progress, print_result, print_wave
from reflection.sampling.loop import Sampling, progress, result
from tests.unit.runs import failed, finished, put_in, sampled

HOSTILE = "[red]x[/red] :smile: \x1b[31m\x07 [/nothing]"


def console(width: int = 80, *, terminal: bool = False, colour: bool = False) -> Console:
    return Console(
        file=StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )


def written(on: Console) -> str:
    assert isinstance(on.file, StringIO)
    return on.file.getvalue()


def final(sampling: Sampling, width: int = 80, **changes: object) -> str:
    on = console(width)
    print_result(on, result(sampling).model_copy(update=changes))
    return "\n".join(line.rstrip() for line in written(on).splitlines())


def test_the_result_of_a_run() -> None:
    """The source's sentence comes first, then why it stopped and what it rests on."""
    sampling = sampled(["129", "129", "139", "129", "129"])

    shown = final(sampling, warnings=("seed was left out",))

    assert shown.splitlines() == [
        "Final Answer: 129 (Confidence: 0.80, Uncertainty: low)",
        "",
        "stopped     confidence 0.8 reaches 0.8 (rule)",
        "votes       129  ▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁  4  0.80",
        "            139  ▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁  1  0.20",
        "confidence  0.80 ██▆▇▇  uncertainty low",
        "entropy     0.72 ▁▁█▇▆  uniform, 0.72 bits",
        "consensus   strong",
        "answers     5, in 1 wave (5)",
        "usage       5 calls, 500 tokens in and 200 out, cost $0.0010",
        "model       openai/gpt-test",
        "warning     seed was left out",
    ]


def test_no_consensus_is_said() -> None:
    """Where nothing could be read, the result says so in words."""
    sampling = sampled([failed(0, "Blocked"), *[None] * 9])

    shown = final(sampling)

    assert shown.startswith("Final Answer: None (Confidence: 0.00, Uncertainty: high)")
    assert "no consensus: the answers" not in shown
    assert "attention   no answer could be read" in shown
    assert "errors      Blocked" in shown
    assert "entropy     -" in shown
    assert "answers     10, 10 unreadable" in shown


def test_a_tie_is_flagged() -> None:
    """A shared lead is said, with the rule by which the answer was taken."""
    sampling = sampled(["A", "B"] * 5)

    shown = final(sampling)

    assert "attention   tied: the lead is shared, and the answer seen first was taken" in shown


def test_a_cost_that_nobody_knows_is_unknown() -> None:
    """An unknown cost and unknown tokens are never a number."""
    usage = result(sampled(["A"] * 5)).usage
    unknown = usage.model_copy(
        update={"cost_usd": None, "input_tokens": None, "output_tokens": None}
    )

    shown = final(sampled(["A"] * 5), usage=unknown)

    assert "usage       5 calls, tokens unknown, cost unknown" in shown


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("answers", [["A", "B"] * 5, ["日本 " * 40, HOSTILE] * 5, [None] * 10])
def test_it_fits_the_width(width: int, answers: list[str | None]) -> None:
    """No line of the result or of the decisions is wider than the terminal, and no number cut."""
    sampling = sampled(answers)
    on = console(width, terminal=True)

    print_result(on, result(sampling))
    on.print(decisions_table(sampling.decisions))

    assert all(cell_len(line) <= width for line in written(on).splitlines())
    assert written(on).count("go on") == 9


def test_a_long_sentence_is_one_line_in_a_pipe() -> None:
    """Outside a terminal the source's sentence is not broken."""
    answer = "exercise and stretching " * 20

    first = final(sampled([answer] * 5), width=40).splitlines()[0]

    assert first.endswith("(Confidence: 1.00, Uncertainty: low)")


def test_a_wave_is_one_line() -> None:
    """A wave's line names the answers so far, the leader, both measures and the decision."""
    sampling, on = sampled(["129", "139", "129", "129", "139"]), console()

    print_wave(on, progress(sampling, 0), sampling.decisions)

    assert written(on) == (
        "wave 1   5 of 10  129  0.60 ▇▇▇▇▇▁▁▁  H 0.97 █  go on: score 0.4252 is under 0.72\n"
    )


def test_a_narrow_terminal_keeps_the_numbers() -> None:
    """Where the reason does not fit, the numbers that the rule compared stand in its place."""
    sampling = sampled(["A", "B"], rule="predictive")
    on = console(70, terminal=True)

    print_wave(on, progress(sampling, 0), sampling.decisions)

    assert written(on) == "wave 1   2 of 10  A    0.50 ▇▇▇▇▁▁▁▁  H 1.00 █  go on: 0.5 vs 0.05\n"


def test_a_running_run_shows_its_decisions() -> None:
    """What goes on is shown with every decision so far, the calls in flight and the spending."""
    sampling, on = sampled(["A", "B"]), console()

    print_progress(on, progress(sampling, 3), sampling.decisions)

    assert written(on).count("go on") == 4
    assert written(on).endswith(
        "3 in flight, spent: 2 calls, 200 tokens in and 80 out, cost $0.00040\n"
    )


def test_a_person_who_ends_a_run_is_named() -> None:
    """The last line says who ended the run."""
    sampling, on = finished(["A", put_in(1, "B", "Ann")]), console()

    print_wave(on, progress(sampling, 0), sampling.decisions)

    assert written(on).endswith("stop: finished by Ann\n")


def test_no_text_of_a_model_acts_on_the_terminal() -> None:
    """Markup, emoji codes and escapes in answers and warnings are shown as they are."""
    sampling = finished([HOSTILE, put_in(1, HOSTILE, HOSTILE)])
    on = console(200)

    print_result(on, result(sampling).model_copy(update={"warnings": (HOSTILE,)}))
    print_wave(on, progress(sampling, 0), sampling.decisions)
    on.print(decisions_table(sampling.decisions))

    assert "[red]x[/red] :smile: ␛[31m␇ [/nothing]" in written(on)
    assert "\x1b" not in written(on)
    assert "\x07" not in written(on)


def test_colour_only_in_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is obeyed in a terminal, which gets colours without it."""
    final_result = result(sampled(["A"] * 5))
    with_colour = console(terminal=True, colour=True)
    monkeypatch.setenv("NO_COLOR", "1")
    without = Console(file=StringIO(), width=80, force_terminal=True, legacy_windows=False)

    print_result(with_colour, final_result)
    print_result(without, final_result)

    assert "\x1b[32m" in written(with_colour)
    assert "\x1b[3" not in written(without)
