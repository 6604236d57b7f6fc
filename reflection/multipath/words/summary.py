"""Where a run of the agent stands, as the Markdown that Temporal's Web UI shows.

The numbers stand in aligned fenced blocks, since tables of the Web UI have no cell padding. It
shows about 60 columns, so reasons come last.
"""

from collections.abc import Sequence

from reflection.multipath.loop import kept
from reflection.multipath.result import Decision, Draft, Progress
from reflection.multipath.words.wording import (
    STEP_WORDS,
    STOP_WORDS,
    critique_words,
    decision_words,
    failure_words,
    held_to_words,
    newest_decisions,
    open_words,
    origin_words,
    passed_words,
    routing_words,
    source_words,
    waits,
)
from reflection.text import spent_words, tally_words, terminal_safe
from reflection.words.markdown import aligned, code, escaped, fenced, review_note, unticked

NEWEST_DRAFTS = 10
MOST_SOURCES = 8
MOST_LEFT = 5
MOST_WARNINGS = 5
# Of code two columns more stand before the reason, so that less of the width is left for it.
REASON_COLUMNS, CODE_REASON_COLUMNS = 48, 26


def current_details(
    progress: Progress,
    decisions: Sequence[Decision],
    trace_id: str | None = None,
    workflow_id: str | None = None,
) -> str:
    """Write the run so far in Markdown, of at most 20,000 bytes whatever the texts are.

    The newest ten drafts, eight sources, five critiques and the first five warnings are shown, and
    how many were left out. `workflow_id` is for the command by which a person reviews.
    """
    blocks = [f"**{_headline(progress, decisions)}**"]
    if waits(decisions):
        blocks.append(review_note(progress.review_until, workflow_id))
    if progress.routing is not None:
        blocks.append(f"Path: {escaped(routing_words(progress.routing, 140), 160)}")
    if progress.drafts:
        blocks.append(fenced(_draft_rows(progress.drafts, decisions)))
    blocks += [*_sources(progress), *_tests(progress), *_left(kept(progress.drafts))]
    blocks.append(f"Spent: {escaped(spent_words(progress.usage), 200)}")
    blocks += _listed([escaped(each, 120) for each in progress.warnings], MOST_WARNINGS, "warning")
    if trace_id:
        blocks.append(f"Trace: {code(trace_id, 64)}")
    return "\n\n".join(blocks)


def _headline(progress: Progress, decisions: Sequence[Decision]) -> str:
    about: str = progress.mode or "no path yet"
    if progress.max_revisions is not None:
        most = tally_words(progress.max_revisions, "draft")
        about = f"{about} · {progress.revisions} of at most {most}"
    if progress.stop_reason is None:
        flight = f", {tally_words(progress.in_flight, 'call')} in flight"
        return f"{STEP_WORDS[progress.step]}{flight if progress.in_flight else ''} · {about}"
    why = STOP_WORDS[progress.stop_reason]
    if decisions:
        why = f"{why}: {escaped(decisions[-1].reason, 120)}"
    return f"Stopped ({code(progress.stop_reason, 20)}): {why} · {about}"


def _draft_rows(drafts: Sequence[Draft], decisions: Sequence[Decision]) -> list[str]:
    newest, latest = drafts[-NEWEST_DRAFTS:], newest_decisions(decisions)
    left_out = len(drafts) - len(newest)
    above = [f"({tally_words(left_out, 'earlier draft')} left out)"] if left_out else []
    tested = any(each.mode == "code" for each in drafts)
    header = ("#", "origin", *(("passed", "error") if tested else ("critiques",)), "decision")
    rows = [_draft_row(each, latest.get(each.index), tested=tested) for each in newest]
    return above + aligned([header, *rows], right={0})


def _draft_row(draft: Draft, decision: Decision | None, *, tested: bool) -> tuple[str, ...]:
    numbers = (passed_words(draft.report), open_words(draft)) if tested else (open_words(draft),)
    most = CODE_REASON_COLUMNS if tested else REASON_COLUMNS
    return (
        str(draft.index + 1),
        unticked(terminal_safe(origin_words(draft), 20)),
        *(unticked(each) for each in numbers),
        unticked(decision_words(decision, most)) if decision else "",
    )


def _sources(progress: Progress) -> list[str]:
    named = [escaped(source_words(each, 80), 120) for each in progress.sources]
    listed = _listed(named, MOST_SOURCES, "source")
    return ["Sources:", *listed] if listed else []


def _tests(progress: Progress) -> list[str]:
    if progress.suite is None:
        return []
    said = f"Tests: {escaped(held_to_words(progress.suite), 200)}"
    apart = [escaped(each.test, 100) for each in progress.quarantined]
    noun = "Not believed, since no draft passed them:"
    return [said, *([noun, *_listed(apart, MOST_LEFT, "test")] if apart else [])]


def _left(draft: Draft | None) -> list[str]:
    if draft is None:
        return []
    left = [critique_words(each, 140) for each in draft.critiques or ()]
    left += [failure_words(draft.error, 140)] if draft.error else []
    listed = _listed([escaped(each, 140) for each in left], MOST_LEFT, "critique")
    return [f"Open in draft {draft.index + 1}:", *listed] if listed else []


def _listed(lines: Sequence[str], most: int, one: str) -> list[str]:
    if not lines:
        return []
    more = len(lines) - most
    rest = [f"({tally_words(more, f'more {one}')} left out)"]
    return ["\n".join(f"- {each}" for each in [*lines[:most], *(rest if more > 0 else [])])]
