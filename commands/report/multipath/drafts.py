"""The drafts: a table of all, and each with its K or E."""

from collections.abc import Sequence

from commands.rendering.multipath.results import CUT
from commands.rendering.multipath.wording import failure_rows, found_words
from commands.report.multipath.records import own, roomy
from commands.report.parts import Html, facts, html, joined, table
from reflection.multipath.result import Draft
from reflection.multipath.state import Critique
from reflection.multipath.suite import Failure, TestReport
from reflection.multipath.words.wording import draft_words, origin_words
from reflection.words.amounts import spent_words, tally_words


def drafts_table(given: Sequence[Draft], kept: int | None) -> Html:
    """Draw every draft on one line: where it is from, its K or E, its length."""
    headers = ("#", "origin", "found", "characters", "model")
    rows = [_row(each, kept) for each in given]
    return table(headers, rows, "The drafts in their order") if rows else Html("")


def drafts(given: Sequence[Draft], kept: int | None) -> Html:
    """Draw each draft, folded up: its text, what was found in it, where it came from."""
    return joined(_draft(each, kept) for each in given)


def text(words: str, mode: str | None, *, kept: bool = False) -> Html:
    """Draw a report or code as it is written."""
    kinds = ["draft", *(["best"] if kept else []), *(["code"] if mode == "code" else [])]
    return Html(f'<div class="{" ".join(kinds)}"><bdi>{html(words)}</bdi></div>')


def critiques_table(given: Sequence[Critique], caption: str) -> Html:
    """Draw critiques: what each is about, in which sentence, and the advice."""
    rows = [
        (
            each.aspect,
            "-" if each.cited is None else f"[{each.cited}]",
            own(each.sentence or "-"),
            roomy(each.advice),
            own(each.author or "-"),
        )
        for each in given
    ]
    headers = ("about", "cited", "sentence", "advice", "by")
    return table(headers, rows, caption) if rows else Html("")


def failure(error: Failure | None) -> Html:
    """Draw E: its message, what was expected, and the frames of the code."""
    if error is None:
        return Html("")
    known = [(name, own(value)) for name, value in failure_rows(error)]
    frames = error.traceback
    return joined(
        each
        for each in (
            Html(f'<p class="error">{html(error.message)}</p>'),
            facts(known) if known else "",
            Html(f'<div class="draft code"><bdi>{html(frames)}</bdi></div>') if frames else "",
        )
        if each
    )


def ideas(given: Sequence[str]) -> Html:
    """Draw the ideas that are not from the documents."""
    listed = "".join(f"<li><bdi>{html(each)}</bdi></li>" for each in given)
    head = "<p>Ideas beyond the documents:</p>"
    return Html(f"{head}<ul>{listed}</ul>") if listed else Html("")


def _row(draft: Draft, kept: int | None) -> tuple[str, ...]:
    chosen = Html(" <strong>kept</strong>") if draft.index == kept else ""
    return (
        Html(f"{draft.index + 1}{chosen}"),
        origin_words(draft),
        found_words(draft),
        f"{len(draft.text):,}",
        own(draft.model or "-"),
    )


def _draft(draft: Draft, kept: int | None) -> Html:
    chosen = ", kept" if draft.index == kept else ""
    head = html(f"{draft_words(draft.index)}, {origin_words(draft)}{chosen}")
    summary = f'<summary>{head} <span class="by">{html(found_words(draft))}</span></summary>'
    parts = [
        text(draft.text, draft.mode),
        critiques_table(draft.critiques or (), "Critiques (K)"),
        ideas(draft.suggestions),
        failure(draft.error),
        _report(draft.report) if draft.report else "",
        facts(_origin(draft)),
    ]
    return Html(f"<details>{summary}{joined(each for each in parts if each)}</details>")


def _report(report: TestReport) -> Html:
    known = facts(
        [
            ("status", report.status),
            ("sandbox", report.backend),
            ("wall clock", f"{report.wall_seconds:.2f} s"),
            ("CPU", f"{report.cpu_seconds:.2f} s"),
            ("memory", f"{report.peak_memory_bytes / 2**20:,.0f} MiB"),
            ("runs", tally_words(report.attempts, "attempt")),
        ]
    )
    if not report.output:
        return known
    printed = f"<p>The end of what it printed:</p>{text(report.output, 'code')}"
    return joined([known, Html(printed)])


def _origin(draft: Draft) -> list[tuple[str, str]]:
    moment = draft.timestamp
    found = [
        ("author", draft.author),
        ("model", draft.model),
        ("seed", None if draft.seed is None else str(draft.seed)),
        ("cut", CUT if draft.cut else None),
        ("at", f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else None),
        ("attempts", str(draft.attempts)),
        ("spent", spent_words(draft.spending) if draft.spending else None),
    ]
    return [(name, value) for name, value in found if value is not None]
