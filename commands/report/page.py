"""The page of a report: what is on it and in which order."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from commands.report.chart import chart
from commands.report.parts import Html, facts, html, joined, section
from commands.report.records import decisions_table, responses, spending_table, votes_table
from reflection.convergence.result import SelfConsistencyResult
from reflection.convergence.words.wording import tally_words, usd
from reflection.plain import plain

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = Path(__file__).with_name("report.css")


def report_html(
    result: SelfConsistencyResult,
    workflow_id: str,
    run_id: str,
    started: datetime | None = None,
    closed: datetime | None = None,
    web_ui: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> str:
    """Write a finished run as one HTML file that loads nothing and runs no script.

    `started` and `closed` are aware times; `web_ui` is the run's address, linked where it is
    http or https; `settings` are the request's fields, which name the thresholds of the chart.
    """
    known = settings or {}
    where = [("workflow id", workflow_id), ("run id", run_id)]
    where += [("Web UI", _link(web_ui))] if web_ui else []
    parts = [
        _answer(result),
        section("Convergence", chart(result.decisions, result.rule, known)),
        section("Votes", votes_table(result)),
        section("The run", facts([*where, *_times(started, closed), *_convergence(result)])),
        section("Usage", spending_table(result.usage)),
        section("Decisions", decisions_table(result.decisions)),
        section("Responses", responses(result.responses)),
        section("Settings", facts(_settings(known))) if _settings(known) else Html(""),
    ]
    return _page(plain(f"Mull: {result.question}", 80), joined(each for each in parts if each))


def _page(title: str, inside: Html) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html(title)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
{inside}
</main>
</body>
</html>
"""


def _answer(result: SelfConsistencyResult) -> Html:
    flags = [f'<li class="flag">{html(each)}</li>' for each in _flags(result)]
    numbers = facts(
        [
            ("confidence", f"{result.consensus_confidence:.2f}"),
            ("uncertainty", result.uncertainty_level),
            ("consensus", result.consensus_type),
            ("normalized entropy", f"{result.normalized_entropy:.2f}, {result.entropy_level}"),
            ("answers", _answers(result)),
            ("cost", usd(result.usage.cost_usd)),
        ]
    )
    answer = "No answer could be read" if result.final_answer is None else result.final_answer
    return Html(
        f'<header><h1 class="question">{html(result.question)}</h1>\n'
        f'<p class="answer"><bdi>{html(answer)}</bdi></p>\n'
        f"<p>Why sampling stopped: {html(result.stop_explanation)}"
        f" (<code>{html(result.stop_reason)}</code>)</p>\n"
        f'<ul class="flags">{"".join(flags)}</ul>\n{numbers}</header>'
    )


def _flags(result: SelfConsistencyResult) -> list[str]:
    found = [
        (result.stop_reason == "no_consensus", "No consensus: the answers support no conclusion."),
        (not result.quorum_met, "The quorum of readable answers was not met."),
        (result.tied, "Tied: the lead is shared, and the answer seen first was taken."),
    ]
    return [words for holds, words in found if holds] + list(result.warnings)


def _answers(result: SelfConsistencyResult) -> str:
    unread = result.total_responses - result.valid_responses
    lost = f", {unread} unreadable" if unread else ""
    return f"{result.total_responses}{lost}, in {tally_words(len(result.waves), 'wave')}"


def _times(started: datetime | None, closed: datetime | None) -> list[tuple[str, str]]:
    lasted = f"{(closed - started).total_seconds():,.1f} s" if started and closed else "unknown"
    return [("started", _time(started)), ("closed", _time(closed)), ("lasted", lasted)]


def _convergence(result: SelfConsistencyResult) -> list[tuple[str, str]]:
    seen = result.convergence_analysis
    rates = (seen.convergence_rate, seen.entropy_convergence_rate)
    stabilities = (seen.final_stability, seen.entropy_final_stability)
    return [
        ("model", result.model or "unknown"),
        ("stopping rule", result.rule),
        ("rate of convergence", "confidence {:+.3f}, entropy {:+.3f}".format(*rates)),
        ("final stability", "confidence {:.2f}, entropy {:.2f}".format(*stabilities)),
    ]


def _settings(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    shown = {name: value for name, value in settings.items() if name != "question"}
    return [(name, plain(str(value), 400)) for name, value in shown.items() if value is not None]


def _time(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "unknown"


def _link(address: str) -> Html:
    if urlsplit(address).scheme not in {"http", "https"}:
        return html(address)
    return Html(f'<a href="{html(address)}" rel="noreferrer">{html(address)}</a>')
