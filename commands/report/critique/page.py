"""What is on the page and in which order."""

from commands.report.critique.chart import chart
from commands.report.critique.drafts import drafts, drafts_table
from commands.report.critique.records import criteria_table, decisions_table
from commands.report.document import RunFacts, identity, page, settings_facts
from commands.report.parts import Html, facts, html, section
from commands.report.spending import spending_table
from reflection.critique.result import ReflectOnResultResult
from reflection.critique.words.wording import draft_words, judged_words, score_words
from reflection.text import usd


def report_html(result: ReflectOnResultResult, run: RunFacts) -> str:
    """Write a finished run as one HTML file that loads nothing and runs no script."""
    parts = [
        _best(result),
        section(
            "Scores",
            chart(result.drafts, result.score_threshold),
            drafts_table(result.drafts, result.best),
            criteria_table(result.drafts, result.criteria),
        ),
        section("Drafts", drafts(result.drafts, result.best)),
        section("Decisions", decisions_table(result.decisions)),
        section("Usage", spending_table(result.usage)),
        section("The run", facts([*identity(run), *_who(result)])),
        section("Settings", settings_facts(run, "query", "draft", "sources")),
    ]
    return page(f"Mull: {result.query}", parts)


def _best(result: ReflectOnResultResult) -> Html:
    flags = "".join(f'<li class="flag">{html(each)}</li>' for each in _flags(result))
    best = next((each for each in result.drafts if each.index == result.best), None)
    judged = judged_words(best.evaluation) if best else ""
    numbers = facts(
        [
            ("score", score_words(result.score) + (f" ({judged})" if judged else "")),
            ("threshold", f"{result.score_threshold:g}"),
            ("the draft", f"{draft_words(result.best)} of {len(result.drafts)}"),
            ("revisions", str(result.revisions)),
            ("cost", usd(result.usage.cost_usd)),
        ]
    )
    text = "There is no draft." if result.draft is None else result.draft
    return Html(
        f'<header><h1 class="question">{html(result.query)}</h1>\n'
        f'<ul class="flags">{flags}</ul>\n'
        f'<div class="draft best"><bdi>{html(text)}</bdi></div>\n'
        f"<p>Why reflection stopped: {html(result.stop_explanation)}"
        f" (<code>{html(result.stop_reason)}</code>)</p>\n"
        f"{numbers}</header>"
    )


def _flags(result: ReflectOnResultResult) -> list[str]:
    unscored = result.draft is not None and result.score is None
    return (["The draft has no score."] if unscored else []) + list(result.warnings)


def _who(result: ReflectOnResultResult) -> list[tuple[str, str]]:
    complexity = "not looked at" if result.complexity is None else f"{result.complexity:.2f}"
    return [
        ("model", result.model or "unknown"),
        ("judges", ", ".join(result.judges) or "unknown"),
        ("complexity of the query", complexity),
    ]
