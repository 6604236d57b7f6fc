"""The words by which a run of the agent is shown, the same everywhere."""

from collections.abc import Mapping, Sequence

from reflection.multipath.result import Decision, Draft, Routing, Source, Step, StopReason
from reflection.multipath.state import Critique, Passage
from reflection.multipath.suite import Failure, Suite, SuiteOrigin, TestReport
from reflection.plain import plain
from reflection.words.amounts import tally_words

STOP_WORDS: Mapping[StopReason, str] = {
    "consistent": "the report is consistent",
    "passed": "the tests pass",
    "max_revisions": "no draft is left",
    "unrouted": "the prompt fits neither path",
    "budget": "the budget is spent",
    "deadline": "the time is up",
    "generation_failed": "no further draft could be had",
    "reflection_failed": "the reflection failed",
    "test_failed": "the code could not be tested",
    "accepted_by_person": "a person accepted the result",
    "replaced_by_person": "a person put another text in its place",
    "review_timeout": "nobody reviewed the result in time",
    "finished_by_person": "a person ended the run",
}
STEP_WORDS: Mapping[Step, str] = {
    "starting": "Starting",
    "retrieve": "Retrieving passages",
    "route": "Choosing the path",
    "generate_report": "Writing the report",
    "reflect_on_report": "Reflecting on the report",
    "generate_code": "Writing the code",
    "test_code": "Testing the code",
    "waiting_for_review": "Waiting for a person's review",
    "finished": "Finished",
}
WRITTEN_BY: Mapping[SuiteOrigin, str] = {
    "user": "the user's own",
    "prompt": "the prompt's examples",
    "model": "the model's own",
}


def draft_words(index: int | None) -> str:
    """Name a draft, counted from 1."""
    return "no draft" if index is None else f"draft {index + 1}"


def origin_words(draft: Draft) -> str:
    """Say where a draft is from, and which person is behind it."""
    return f"{draft.origin} by {plain(draft.author, 24)}" if draft.author else draft.origin


def routing_words(routing: Routing, most: int) -> str:
    """Say which path was chosen, by whom, and why; the reason has `most` columns."""
    if routing.mode is None:
        return plain(f"no path: {routing.error or routing.reason or 'no reason given'}", most)
    by = "as the request says" if routing.chosen_by == "request" else plain(routing.reason, most)
    return f"{routing.mode}: {by}" if by else routing.mode


def place_words(passage: Passage, most: int) -> str:
    """Name where a passage stands: its file, page and lines."""
    page = f", page {passage.page}" if passage.page is not None else ""
    last = f"-{passage.last_line}" if passage.last_line != passage.first_line else ""
    return f"{plain(passage.source, most)}{page}:{passage.first_line}{last}"


def source_words(source: Source, most: int) -> str:
    """Name a source by its number and its place."""
    return f"[{source.number}] {place_words(source.passage, most)}"


def critique_words(critique: Critique, most: int) -> str:
    """Write a critique on one line: its aspect or the person, the sentence, the advice."""
    quoted = f'at "{plain(critique.sentence, most // 3)}"' if critique.sentence else ""
    cited = f"[{critique.cited}]" if critique.cited is not None else ""
    who = plain(critique.author, 24) if critique.author else critique.aspect
    about = ", ".join(each for each in (who, cited, quoted) if each)
    return plain(f"{about}: {critique.advice}", most)


def failure_words(failure: Failure, most: int) -> str:
    """Write E on one line: which test, expected and got, or what happened."""
    where = f"{failure.test}: " if failure.test else ""
    return plain(f"{where}{failure.message}", most)


def suite_words(suite: Suite) -> str:
    """Say what the code is held to."""
    what = suite.file.name if suite.file else tally_words(len(suite.cases), "test")
    return f"{plain(what, 60)}, {WRITTEN_BY[suite.origin]}"


def held_to_words(suite: Suite) -> str:
    """Say what the code is held to, and whether it could forge the verdict."""
    forged = ", run beside the code, which could forge their verdict" if suite.forgeable else ""
    return f"{suite_words(suite)}{forged}"


def passed_words(report: TestReport | None) -> str:
    """Write how many tests pass; a dash where none was run."""
    if report is None:
        return "-"
    return f"{report.passed} of {'?' if report.total is None else report.total}"


def open_words(draft: Draft) -> str:
    """Say in short what is open in a draft: critiques, or an error; a dash where nobody knows."""
    if draft.mode == "code":
        known = "-" if draft.report is None else "none"
        return plain(draft.error.status or "error", 20) if draft.error else known
    return "-" if draft.critiques is None else str(len(draft.critiques))


def outcome_words(decision: Decision) -> str:
    """Say in a word what was decided: the next node, a review, or the end."""
    if decision.stop:
        return "stop"
    return "review" if decision.waits_for_review else f"→ {decision.next}"


def by_words(decision: Decision) -> str:
    """Name the person who decided; nothing where that was no person."""
    return f"by {plain(decision.author, 24)}" if decision.author else ""


def decision_words(decision: Decision, most: int) -> str:
    """Say what was decided, why, and by whom, on one line; the reason has `most` columns."""
    reason = f"{decision.reason}: {decision.asked}" if decision.asked else decision.reason
    said = f"{outcome_words(decision)}: {plain(reason, most)}"
    named = decision.author and decision.author in decision.reason
    return said if named or not decision.author else f"{said} ({by_words(decision)})"


def newest_decisions(decisions: Sequence[Decision]) -> dict[int, Decision]:
    """Map the index of each draft to the newest decision after it."""
    return {each.draft: each for each in decisions if each.draft is not None}


def waits(decisions: Sequence[Decision]) -> bool:
    """Tell whether a run waits for a person."""
    return bool(decisions) and decisions[-1].waits_for_review
