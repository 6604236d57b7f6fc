"""Decisions as a table, and sources as folded passages."""

from collections.abc import Sequence

from commands.rendering.multipath.wording import counts_words, next_words
from commands.report.parts import Html, html, joined, table
from reflection.multipath.result import Decision, Source
from reflection.multipath.words.wording import by_words, source_words


def decisions_table(decisions: Sequence[Decision]) -> Html:
    """Draw every decision with what it rests on."""
    headers = (
        "after",
        "draft",
        "revisions (R_n)",
        "critiques (K)",
        "tests",
        "next",
        "reason",
        "at",
    )
    rows = [_decision(each) for each in decisions]
    return table(headers, rows, "Decisions in their order") if rows else Html("")


def sources(given: Sequence[Source]) -> Html:
    """Draw each source, folded up: where it stands, and its passage."""
    return joined(_source(each) for each in given)


def own(words: str) -> Html:
    """Keep words of outside apart in reading order, and let them wrap."""
    return Html(f"<bdi>{html(words)}</bdi>")


def roomy(words: str) -> Html:
    """Give words that may be many the room to be read, on a narrow screen too."""
    return Html(f'<span class="reason"><bdi>{html(words)}</bdi></span>')


def _decision(decision: Decision) -> tuple[str, ...]:
    moment = decision.at
    tests = "-"
    if decision.passed is not None and decision.total is not None:
        tests = counts_words(decision.passed, decision.total)
    said = f"{decision.reason}: {decision.asked}" if decision.asked else decision.reason
    by = html(f" {by_words(decision)}".rstrip())
    ends = html(next_words(decision))
    return (
        decision.after or "-",
        "-" if decision.draft is None else str(decision.draft + 1),
        str(decision.revisions),
        "-" if decision.critiques is None else str(decision.critiques),
        tests,
        Html(f"<strong>{ends}</strong>{by}") if decision.stop else Html(f"{ends}{by}"),
        roomy(said),
        f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else "-",
    )


def _source(source: Source) -> Html:
    passage = source.passage
    head = html(source_words(source, 200))
    return Html(
        f'<details><summary>{head} <span class="by">score {passage.score:.2f}</span></summary>'
        f'<div class="draft"><bdi>{html(passage.text)}</bdi></div></details>'
    )
