"""A comparison in the terminal: each method, and each against the first."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.measuring.methods.findings import Findings
from reflection.critique.calibration.estimate import Estimate
from reflection.critique.worth.records import Comparison, Mean, Method, Paired
from reflection.text import usd

RANGE = " to "


def print_findings(console: Console, found: Findings) -> None:
    """Print what is to be known first, each method, what changed, and what reflection cost."""
    for each in found.warnings():
        console.print(Text(each))
    console.print(_methods(found.comparison, gold=found.plan.has_gold))
    if found.comparison.paired:
        console.print(_paired(found.comparison, gold=found.plan.has_gold))
    for each in found.costs():
        console.print(Text(each))


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _methods(found: Comparison, *, gold: bool) -> Table:
    name = "accuracy" if gold else "score"
    table = _table("runs", name, "95 % interval", "tokens", "cost", "seconds")
    for each in found.methods:
        table.add_row(each.method, *_method(each, gold=gold))
    table.caption = "Tokens, cost and seconds are those of a question, on average."
    return table


def _method(found: Method, *, gold: bool) -> tuple[str, ...]:
    main = found.accuracy if gold else found.score
    seconds = "-" if found.seconds.value is None else f"{found.seconds.value:,.1f}"
    tokens = "unknown" if found.tokens.value is None else f"{found.tokens.value:,.0f}"
    cost = usd(found.cost_usd.value) + _part(found.cost_usd, found.questions)
    return (
        f"{found.questions:,}",
        _number(main.value, gold=gold),
        _interval(main, gold=gold),
        tokens + _part(found.tokens, found.questions),
        cost,
        seconds,
    )


def _part(mean: Mean, questions: int) -> str:
    """Mark a mean that does not cover every question."""
    return "*" if mean.value is not None and mean.known < questions else ""


def _paired(found: Comparison, *, gold: bool) -> Table:
    changed = ("wrong to\nright", "right to\nwrong", "p") if gold else ()
    table = _table("change", "95 % interval", *changed, "tokens")
    table.columns[0].header = f"against {found.baseline}"
    for each in found.paired:
        table.add_row(each.method, *_change(each, gold=gold))
    return table


def _change(found: Paired, *, gold: bool) -> tuple[str, ...]:
    main = found.accuracy if gold else found.score
    counts = (found.wrong_to_right, found.right_to_wrong)
    p_value = "-" if found.p_value is None else f"{found.p_value:.3f}"
    changed = (*("-" if each is None else f"{each:,}" for each in counts), p_value)
    tokens = "unknown" if found.tokens_change is None else f"{found.tokens_change:+,.0f} %"
    shown = _number(main.value, gold=gold, signed=True), _interval(main, gold=gold, signed=True)
    return (*shown, *(changed if gold else ()), tokens)


def _number(value: float | None, *, gold: bool, signed: bool = False) -> str:
    if value is None:
        return "-"
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.0f} %" if gold else f"{value:{sign}.2f}"


def _interval(found: Estimate, *, gold: bool, signed: bool = False) -> str:
    if found.low is None or found.high is None:
        return "-"
    ends = (_number(each, gold=gold, signed=signed) for each in (found.low, found.high))
    return RANGE.join(each.removesuffix(" %") for each in ends)
