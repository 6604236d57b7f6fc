"""What is on the page and in which order."""

from commands.rendering.multipath.results import flags
from commands.rendering.multipath.wording import still_open, thing_words
from commands.report.document import RunFacts, identity, page, settings_facts
from commands.report.multipath.drafts import (
    critiques_table,
    drafts,
    drafts_table,
    failure,
    ideas,
    text,
)
from commands.report.multipath.records import decisions_table, sources
from commands.report.multipath.suite import tests
from commands.report.multipath.walk import walk
from commands.report.parts import Html, facts, html, joined, section
from commands.report.spending import spending_table
from reflection.multipath.result import MultiPathResult
from reflection.multipath.words.wording import draft_words, routing_words
from reflection.text import usd


def report_html(result: MultiPathResult, run: RunFacts) -> str:
    """Write a finished run as one HTML file that loads nothing and runs no script."""
    parts = [
        _made(result),
        section("Still open", _open(result)),
        section("From node to node", walk(result.decisions), decisions_table(result.decisions)),
        section(
            "Drafts",
            drafts_table(result.drafts, result.kept),
            drafts(result.drafts, result.kept),
        ),
        section("Tests", tests(result)),
        section("Sources", sources(result.sources)),
        section("Usage", spending_table(result.usage)),
        section("The run", facts([*identity(run), ("model", result.model or "unknown")])),
        section("Settings", settings_facts(run, "prompt", "tests")),
    ]
    return page(f"Mull: {result.prompt}", parts)


def _made(result: MultiPathResult) -> Html:
    said = [*flags(result), *result.warnings]
    listed = "".join(f'<li class="flag">{html(each)}</li>' for each in said)
    made = (
        Html(f"<p>There is no {thing_words(result.mode)}.</p>")
        if result.output is None
        else text(result.output, result.mode, kept=True)
    )
    return Html(
        f'<header><h1 class="question">{html(result.prompt)}</h1>\n'
        f'<ul class="flags">{listed}</ul>\n{made}\n'
        f"<p>Why the run ended: {html(result.stop_explanation)}"
        f" (<code>{html(result.stop_reason)}</code>)</p>\n"
        f"{facts(_numbers(result))}</header>"
    )


def _numbers(result: MultiPathResult) -> list[tuple[str, str]]:
    routing = result.routing
    most = "" if result.max_revisions is None else f" of at most {result.max_revisions}"
    return [
        ("path", routing_words(routing, 400) if routing else "none was chosen"),
        ("open", still_open(result) or ("no" if result.output is not None else "-")),
        ("drafts", f"{result.revisions}{most}"),
        ("kept", draft_words(result.kept)),
        ("cost", usd(result.usage.cost_usd)),
    ]


def _open(result: MultiPathResult) -> Html:
    return joined(
        each
        for each in (
            critiques_table(result.critiques, "Critiques that remain (K)"),
            failure(result.error),
            ideas(result.suggestions),
        )
        if each
    )
