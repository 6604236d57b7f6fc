"""What is on the page and in which order."""

from commands.report.convergence.chart import chart
from commands.report.convergence.records import (
    decisions_table,
    responses,
    votes_table,
)
from commands.report.document import RunFacts, identity, page, settings_facts
from commands.report.parts import Html, facts, html, section
from commands.report.spending import spending_table
from reflection.sampling.result import SelfConsistencyResult
from reflection.text import tally_words, usd


def report_html(result: SelfConsistencyResult, run: RunFacts) -> str:
    """Write a finished run as one HTML file that loads nothing and runs no script.

    The chart's thresholds are among the settings.
    """
    parts = [
        _answer(result),
        section("Convergence", chart(result.decisions, result.rule, run.settings or {})),
        section("Votes", votes_table(result)),
        section("The run", facts([*identity(run), *_convergence(result)])),
        section("Usage", spending_table(result.usage)),
        section("Decisions", decisions_table(result.decisions)),
        section("Responses", responses(result.responses)),
        section("Settings", settings_facts(run, "question")),
    ]
    return page(f"Mull: {result.question}", parts)


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
    voted = result.voted_answer
    persons = [] if voted is None else [f"A person's answer. The votes gave: {voted}"]
    return [words for holds, words in found if holds] + persons + list(result.warnings)


def _answers(result: SelfConsistencyResult) -> str:
    unread = result.total_responses - result.valid_responses
    lost = f", {unread} unreadable" if unread else ""
    return f"{result.total_responses}{lost}, in {tally_words(len(result.waves), 'wave')}"


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
