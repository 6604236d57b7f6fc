"""Where a run stands, as the Markdown that Temporal's Web UI shows while it runs and after.

Tables of the Web UI have no cell padding, so the numbers stand in an aligned fenced block. It
shows about 60 columns, so answers, which may be long or wide, come last.
Answers are shown there and in code spans alone, with their backticks replaced: in neither does
Markdown mean anything, and without a backtick neither can be left.
"""

import re
from collections.abc import Sequence

from reflection.convergence.result import Decision, Progress
from reflection.convergence.words.wording import (
    STOP_WORDS,
    answer_words,
    bar,
    by_words,
    comparison,
    lead_words,
    number_words,
    ranked,
    sparkline,
    spent_words,
    tally_words,
    vote_words,
)
from reflection.plain import padded, plain, width

NEWEST_DECISIONS = 30
MOST_ANSWERS = 10
MOST_NOTES = 5
SPARKS = 40
MARKS = re.compile(r"[\\`*_\[\]<>&#!|~:@]|(?<!\d)\.|\.(?!\d)")
HEADER = ("#", "wave", "votes", "conf.", "H", "compared", "", "answer")


def current_details(
    progress: Progress,
    decisions: Sequence[Decision],
    trace_id: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Write the run so far in Markdown, of at most 20,000 bytes whatever the answers are.

    The newest 30 decisions, the ten answers with most votes and the first five notes are shown,
    and how many were left out.
    """
    blocks = [f"**{_headline(progress, decisions)}**"]
    if decisions:
        blocks.append(_fenced([*_curves(decisions), "", *_decision_rows(decisions)]))
    if progress.answer_distribution:
        blocks.append(_fenced(_vote_rows(progress)))
    blocks.append(f"Spent: {_escaped(spent_words(progress.usage), 200)}")
    blocks.extend(f"- {_escaped(note, 160)}" for note in notes[:MOST_NOTES])
    if trace_id:
        blocks.append(f"Trace: {_code(trace_id, 64)}")
    return "\n\n".join(blocks)


def _headline(progress: Progress, decisions: Sequence[Decision]) -> str:
    answers = f"{progress.total_responses} of at most {progress.max_responses} answers"
    if progress.stop_reason is None:
        flight = f", {progress.in_flight} in flight" if progress.in_flight else ""
        return f"Wave {progress.wave} is running{flight} · {answers} · {_leader(progress)}"
    why = STOP_WORDS[progress.stop_reason]
    if decisions and progress.stop_reason != "max_responses":
        why = f"{why}: {_escaped(decisions[-1].reason, 120)}"
    reason = _code(progress.stop_reason, 20)
    return f"Stopped ({reason}): {why} · {answers} · {_leader(progress)}"


def _leader(progress: Progress) -> str:
    if progress.leader is None:
        return "no readable answer" + ("" if progress.stop_reason else " yet")
    shares = sorted(progress.answer_distribution.values(), reverse=True)
    tied = ", tied" if len(shares) > 1 and shares[0] == shares[1] else ""
    name = "answer" if progress.stop_reason else "leader"
    return f"{name} {_code(progress.leader, 40)} with confidence {progress.confidence:.2f}{tied}"


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
    return above + _aligned([HEADER, *(_decision_row(each) for each in newest)], right={0, 1, 2})


def _decision_row(decision: Decision) -> tuple[str, ...]:
    return (
        number_words(decision),
        str(decision.wave),
        lead_words(decision),
        f"{decision.confidence:.2f}",
        f"{decision.normalized_entropy:.2f}",
        comparison(decision, 3),
        "stop" if decision.stop else "go on",
        _unticked(f"{vote_words(decision, 24)} {by_words(decision)}"),
    )


def _vote_rows(progress: Progress) -> list[str]:
    votes = ranked(progress.answer_distribution, progress.valid_responses)
    rows = [
        (str(count), f"{share:.2f}", bar(share, 20), _unticked(answer_words(answer, 24)))
        for answer, count, share in votes[:MOST_ANSWERS]
    ]
    more = len(votes) - len(rows)
    below = [f"({tally_words(more, 'more answer')} left out)"] if more else []
    return _aligned([("votes", "share", "", "answer"), *rows], right={0}) + below


def _aligned(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(_placed(row, widths, right)).rstrip() for row in rows]


def _placed(row: Sequence[str], widths: Sequence[int], right: set[int]) -> list[str]:
    return [
        " " * (columns - width(cell)) + cell if place in right else padded(cell, columns)
        for place, (cell, columns) in enumerate(zip(row, widths, strict=True))
    ]


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def _unticked(text: str) -> str:
    return text.replace("`", "'")


def _code(text: str, most: int) -> str:
    return f"`{_unticked(answer_words(text, most))}`"


def _escaped(text: str, most: int) -> str:
    return MARKS.sub(r"\\\g<0>", plain(text, most))
