"""Where a run stands, as the Markdown that Temporal's Web UI shows while it runs and after.

Tables of the Web UI have no cell padding, so the numbers stand in an aligned fenced block. It
shows about 60 columns, so answers, which may be long or wide, come last.
Answers are shown there and in code spans alone, with their backticks replaced: in neither does
Markdown mean anything, and without a backtick neither can be left.
"""

from collections.abc import Sequence

from reflection.convergence.words.wording import (
    STOP_WORDS,
    answer_words,
    by_words,
    comparison,
    lead_words,
    number_words,
    ranked,
    vote_words,
)
from reflection.sampling.result import Decision, Progress
from reflection.text import spent_words, tally_words
from reflection.words.blocks import bar, sparkline
from reflection.words.markdown import aligned, code, escaped, fenced, review_note, unticked

NEWEST_DECISIONS = 30
MOST_ANSWERS = 10
MOST_NOTES = 5
SPARKS = 40
HEADER = ("#", "wave", "votes", "conf.", "H", "compared", "", "answer")


def current_details(
    progress: Progress,
    decisions: Sequence[Decision],
    trace_id: str | None = None,
    notes: Sequence[str] = (),
    workflow_id: str | None = None,
) -> str:
    """Write the run so far in Markdown, of at most 20,000 bytes whatever the answers are.

    The newest 30 decisions, the ten answers with most votes and the first five notes are shown,
    and how many were left out. `workflow_id` is for the command by which a person reviews.
    """
    blocks = [f"**{_headline(progress, decisions)}**"]
    if progress.needs_review:
        blocks.append(review_note(progress.review_until, workflow_id))
    if decisions:
        blocks.append(fenced([*_curves(decisions), "", *_decision_rows(decisions)]))
    if progress.answer_distribution:
        blocks.append(fenced(_vote_rows(progress)))
    blocks.append(f"Spent: {escaped(spent_words(progress.usage), 200)}")
    blocks.extend(f"- {escaped(note, 160)}" for note in notes[:MOST_NOTES])
    if trace_id:
        blocks.append(f"Trace: {code(trace_id, 64)}")
    return "\n\n".join(blocks)


def _headline(progress: Progress, decisions: Sequence[Decision]) -> str:
    answers = f"{progress.total_responses} of at most {progress.max_responses} answers"
    if progress.stop_reason is None:
        flight = f", {progress.in_flight} in flight" if progress.in_flight else ""
        return f"Wave {progress.wave} is running{flight} · {answers} · {_leader(progress)}"
    why = STOP_WORDS[progress.stop_reason]
    if decisions and progress.stop_reason != "max_responses":
        why = f"{why}: {escaped(decisions[-1].reason, 120)}"
    reason = code(progress.stop_reason, 20)
    return f"Stopped ({reason}): {why} · {answers} · {_leader(progress)}"


def _leader(progress: Progress) -> str:
    if progress.leader is None:
        return "no readable answer" + ("" if progress.stop_reason else " yet")
    shares = sorted(progress.answer_distribution.values(), reverse=True)
    tied = ", tied" if len(shares) > 1 and shares[0] == shares[1] else ""
    name = "answer" if progress.stop_reason else "leader"
    return f"{name} {code(progress.leader, 40)} with confidence {progress.confidence:.2f}{tied}"


def _curves(decisions: Sequence[Decision]) -> list[str]:
    newest = decisions[-SPARKS:]
    confidence = sparkline(each.confidence for each in newest)
    entropy = sparkline(each.normalized_entropy for each in newest)
    return [
        f"confidence          {confidence}  {newest[-1].confidence:.2f}",
        f"normalized entropy  {entropy}  {newest[-1].normalized_entropy:.2f}",
    ]


def _decision_rows(decisions: Sequence[Decision]) -> list[str]:
    newest = decisions[-NEWEST_DECISIONS:]
    left_out = len(decisions) - len(newest)
    above = [f"({tally_words(left_out, 'earlier decision')} left out)"] if left_out else []
    return above + aligned([HEADER, *(_decision_row(each) for each in newest)], right={0, 1, 2})


def _decision_row(decision: Decision) -> tuple[str, ...]:
    return (
        number_words(decision),
        str(decision.wave),
        lead_words(decision),
        f"{decision.confidence:.2f}",
        f"{decision.normalized_entropy:.2f}",
        comparison(decision, 3),
        "stop" if decision.stop else "go on",
        unticked(f"{vote_words(decision, 24)} {by_words(decision)}"),
    )


def _vote_rows(progress: Progress) -> list[str]:
    votes = ranked(progress.answer_distribution, progress.valid_responses)
    rows = [
        (str(count), f"{share:.2f}", bar(share, 20), unticked(answer_words(answer, 24)))
        for answer, count, share in votes[:MOST_ANSWERS]
    ]
    more = len(votes) - len(rows)
    below = [f"({tally_words(more, 'more answer')} left out)"] if more else []
    return aligned([("votes", "share", "", "answer"), *rows], right={0}) + below
