"""A calibration as one HTML file, in the style of a run's report."""

from commands.measuring.judges.diagram import diagram
from commands.measuring.judges.findings import Findings
from commands.measuring.judges.numbers import NUMBERS, share
from commands.report.document import page
from commands.report.parts import Html, facts, html, section, table
from reflection.critique.calibration.calibration import Calibration
from reflection.critique.calibration.threshold import Verdicts
from reflection.text import tally_words, usd


def calibration_html(found: Findings) -> str:
    """Write a calibration as one file that loads nothing and runs no script; no draft is in it."""
    judges = [_judge(each, number) for number, each in enumerate(found.judges, 1)]
    parts = [_head(found), section("Numbers", _numbers(found)), *judges, _about(found)]
    return page(f"Mull: calibration of {', '.join(found.plan.judges)}", parts)


def _head(found: Findings) -> Html:
    flags = "".join(f'<li class="flag">{html(each)}</li>' for each in found.remarks())
    size = tally_words(len(found.plan.examples), "labelled draft")
    judges = tally_words(len(found.plan.judges), "judge")
    said = html(f"{judges}, {size}")
    return Html(
        f'<header><h1 class="question">How good is the judge?</h1>\n'
        f'<p class="answer">{said}</p>\n<ul class="flags">{flags}</ul></header>'
    )


def _numbers(found: Findings) -> Html:
    headers = ("", "best", *(each.judge for each in found.judges))
    rows = []
    for number in NUMBERS:
        cells = []
        for each in found.judges:
            ends = number.interval(each) if number.interval else ""
            cells.append(number.value(each) + (f" ({ends})" if ends else ""))
        rows.append((number.name, number.best, *cells))
    return table(headers, rows, "Each number with its 95 % bootstrap interval over drafts")


def _judge(found: Calibration, number: int) -> Html:
    bins = [
        (
            f"{each.low:.1f} to {each.high:.1f}",
            f"{each.count:,}",
            _two(each.score),
            _two(each.label),
        )
        for each in found.reliability
        if each.count
    ]
    verdicts = [
        _verdicts(name, each)
        for name, each in (("recommended", found.recommended), ("the default", found.at_source))
        if each is not None
    ]
    headers = ("", "threshold", "accuracy", "Youden's J", "false passes", "false fails")
    return section(
        f"Reliability of {found.judge}",
        diagram(found.reliability, found.judge, number),
        Html(
            "<p>On the dashed diagonal a score means what it says; below it the judge is too"
            " generous, above it too strict. A mark's area is the number of drafts.</p>"
        ),
        table(("scores", "drafts", "mean score", "mean label"), bins, "Bins of scores"),
        table(headers, verdicts, "Verdicts by threshold") if verdicts else "",
    )


def _verdicts(name: str, found: Verdicts) -> tuple[str, ...]:
    return (
        name,
        f"{found.threshold:.2f}",
        share(found.accuracy),
        _two(found.youden),
        f"{found.false_passes:,}",
        f"{found.false_fails:,}",
    )


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _about(found: Findings) -> Html:
    plan, batch = found.plan, found.batch
    return section(
        "How it was measured",
        facts(
            [
                ("batch", found.identity),
                ("criteria", f"{plan.criteria}: {', '.join(each.name for each in plan.judged_by)}"),
                (
                    "evaluations of each draft",
                    f"{plan.repeats}, and 1 with the criteria reversed"
                    if plan.turned
                    else f"{plan.repeats}",
                ),
                ("a label passes from", f"{found.pass_at:g}"),
                ("guardrails", "as in the loop" if plan.guardrails else "none"),
                ("tokens", "unknown" if batch.tokens is None else f"{batch.tokens:,}"),
                ("cost", usd(batch.cost_usd)),
            ]
        ),
    )
