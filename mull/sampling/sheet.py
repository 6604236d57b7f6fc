"""The sheet of a self-consistency run, running or finished: answer, votes and waves.

A wave is the answers that are asked for at once; the rule decides after each one of them. The
leader's share of the votes, the source's confidence, is shown as agreement.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from mull import sheet as parts
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import FEW_VOTES, Decision, Response, SelfConsistencyResult, answer_words
from mull.sampling.rules import AGREEMENT, COMPARED, RULES
from mull.text import bar, claimed, tally_words, terminal_safe

MOST_ERRORS = 3
LEADER_COLUMNS = 12
EVEN, SCATTERED = 0.995, "widely scattered"
NO_PROBABILITY = "a share, not a probability"
CLOSE = "two answers are close"
MINORITY = "most votes are for other answers: this one leads, but has no majority"
UNCERTAINTY_TONES: dict[str, parts.Tone] = {"low": "good", "medium": "warning", "high": "bad"}


def sheet(
    seen: SelfConsistencyResult,
    request: SelfConsistencyRequest | None = None,
    newest: int | None = None,
) -> parts.Sheet:
    """Build the sheet of a run.

    `request` knows the thresholds that curves are held against. With `newest` only so many
    decisions are told, no texts and no steps: what the Web UI shows of a long run costs no more
    than of a short one. It does not show the answer, so the leader is a fact.
    """
    shares = sorted(seen.answer_distribution.values(), reverse=True)
    answer, note = seen.final_answer, f"agreement {shares[0]:.2f}" if shares else ""
    if seen.stop_reason == "replaced_by_person":
        note = f"by {seen.reviewer or 'a person'}"
    told = seen.decisions if newest is None else seen.decisions[-newest:]
    return parts.run_sheet(
        seen,
        subject=seen.question,
        doing=_doing(seen),
        answer=None if answer is None else parts.Text(title="answer", content=answer, note=note),
        facts=_facts(seen, shares, leader=newest is not None or seen.stop_reason is None),
        flags=_flags(seen, shares) if seen.stop_reason else (),
        charts=_charts(told, request),
        tables=[_votes(seen)],
        texts=tuple(map(_response, seen.responses)) if newest is None else (),
        decisions=_decisions(told, len(seen.decisions) - len(told)),
        steps=_steps(seen, request) if newest is None else (),
    )


def _doing(seen: SelfConsistencyResult) -> str:
    if seen.stop_reason is not None:
        return "waiting for a person's review"
    made = seen.waves[-1] if seen.waves else 0
    back = f" ({made - seen.in_flight} of its {made} calls came back)"
    doing = f"wave {len(seen.waves)} is running{back if 0 < seen.in_flight < made else ''}"
    doing += f", {seen.total_responses} of at most {tally_words(seen.max_responses or 0, 'answer')}"
    return doing + (f", {tally_words(seen.added, 'added answer')} next" if seen.added else "")


def _lost(seen: SelfConsistencyResult) -> dict[str, int]:
    """Count the responses that failed, the replies that can't be read, and those not listed."""
    failed = sum(response.failed for response in seen.responses)
    unreadable = sum(response.vote is None for response in seen.responses) - failed
    rest = seen.total_responses - seen.valid_responses - failed - unreadable
    counts = {"failed": failed, "unreadable": unreadable, "without a vote": rest}
    return {name: count for name, count in counts.items() if count > 0}


def _leader(seen: SelfConsistencyResult) -> str | None:
    """Return the answer with most votes, the first of equals."""
    votes = seen.answer_distribution
    return answer_words(max(votes, key=votes.__getitem__)) if votes else None


def _facts(
    seen: SelfConsistencyResult, shares: Sequence[float], *, leader: bool
) -> list[parts.Fact]:
    facts = []
    if leader:
        words = _leader(seen) or "no readable answer yet"
        facts.append(parts.Fact("leader", words, "tied" if seen.tied else ""))
    if shares:
        share, normalized, level = shares[0], seen.normalized_entropy, seen.entropy_level
        tone = UNCERTAINTY_TONES[seen.uncertainty_level]
        note = f"uncertainty {seen.uncertainty_level}"
        if by := seen.calibration:
            chance = seen.probability_right
            words = "unknown" if chance is None else f"{chance:.3f}"
            told = f"by {by.name}: {by.questions:,} questions, calibration error {by.ece:.3f}"
            facts.append(parts.Fact("probability right", words, by.reason or told))
        else:
            note += f"; {NO_PROBABILITY}"
        # The source calls all above 0.7 uniform, which is even only at 1.
        uneven = level == "uniform" and normalized < EVEN
        meaning = f"{SCATTERED if uneven else level}; 0: all agree, 1: even"
        kind, each = seen.consensus_type, round(share * seen.valid_responses)
        tie = f"a tie: {shares.count(share)} answers have {tally_words(each, 'vote')} each"
        tie = tie if seen.tied else ""
        facts += [
            parts.Fact(AGREEMENT, f"{share:.2f}", note, tone=tone),
            parts.Fact("entropy", f"{normalized:.2f}", meaning),
            parts.Fact("consensus", tie or kind, CLOSE if kind == "binary" and not tie else ""),
        ]
    lost = "".join(f", {count} {name}" for name, count in _lost(seen).items())
    waves = f", in {tally_words(len(seen.waves), 'wave')}" if seen.waves else ""
    facts.append(parts.Fact("answers", f"{seen.total_responses}{lost}{waves}"))
    errors = Counter(response.error for response in seen.responses if response.error)
    return facts + [
        parts.Fact("error", error, f"{count} x", tone="warning")
        for error, count in errors.most_common(MOST_ERRORS)
    ]


def _flags(seen: SelfConsistencyResult, shares: Sequence[float]) -> tuple[str, ...]:
    """List what a reader has to know before building on the answer."""
    votes, replaced = seen.valid_responses, seen.stop_reason == "replaced_by_person"
    least = seen.min_responses
    short = f"cut short: only {votes} of at least {least} readable answers"
    few = short if seen.cut_short else f"only {tally_words(votes, 'vote')}"
    nothing = "no answer could be read" if "unreadable" in _lost(seen) else "no reply came"
    voters = (made.author for made in seen.decisions if made.vote is not None)
    people = [name for name in map(claimed, voters) if name]
    given = f"{len(people)} of {votes} ({', '.join(dict.fromkeys(people))})"
    return parts.said(
        not votes and not replaced and nothing,
        votes
        and seen.stop_reason == "no_consensus"
        and "no consensus: the answers do not support a conclusion",
        seen.tied and "tied: several answers share the lead, and the one seen first was taken",
        votes and votes < max(least, FEW_VOTES) and f"{few}, so their agreement means little",
        shares and shares[0] < 0.5 and not seen.tied and MINORITY,
        people and f"votes given by people, not by the model: {given}",
        votes and replaced and f"a person gave the answer; the votes gave {_leader(seen)}",
        not seen.quorum_met and "the quorum of readable answers was not met",
    )


def _votes(seen: SelfConsistencyResult) -> parts.Table:
    """List the answers, most votes first, and among equals in the order first seen."""
    order = sorted(seen.answer_distribution.items(), key=lambda item: -item[1])
    rows = [
        (answer_words(answer), round(share * seen.valid_responses), share)
        for answer, share in order
    ]
    rows += [
        (f"({name}): {tally_words(count, 'answer')}", 0, 0.0) for name, count in _lost(seen).items()
    ]
    return parts.table("Votes", "answer, votes|number, share|share", rows)


def _decisions(decisions: Sequence[Decision], left_out: int) -> parts.Table:
    own = (
        (
            "" if made.index is None else answer_words(made.vote),
            f"{made.leader_votes}-{made.runner_up_votes}",
            "" if None in (made.value, made.bound) else f"{made.value:.3g} vs {made.bound:.3g}",
        )
        for made in decisions
    )
    heads = ("vote", "lead|number", "compared|extra")
    return parts.decision_table(Decision, decisions, heads, own, left_out)


def _steps(
    seen: SelfConsistencyResult, request: SelfConsistencyRequest | None
) -> tuple[parts.Step, ...]:
    """Write a line for each wave once it is counted, and for each stop or act of a person."""
    waves, steps, counted = seen.waves, [], Counter[int]()
    most = f" of {request.max_responses}" if request else ""
    for made in seen.decisions:
        counted[made.wave] += 1
        whole = 0 < made.wave <= len(waves) and counted[made.wave] == waves[made.wave - 1]
        if not (whole or made.stop or made.author):
            continue
        stands = ""
        if made.index is not None:
            stands = (
                f"wave {made.wave:<2} {made.total_responses:>3}{most}  "
                f"{made.confidence:.2f} {bar(made.confidence, 8)}  "
                f"entropy {made.normalized_entropy:.2f}  "
                f"{terminal_safe(answer_words(made.leader), LEADER_COLUMNS)}  "
            )
        words = f"{stands}{parts.next_words(made)}: {parts.reason_words(made)}"
        steps.append(parts.Step(words=words, tone="running" if made.stop else "plain"))
    return tuple(steps)


def _charts(
    decisions: Sequence[Decision], request: SelfConsistencyRequest | None
) -> tuple[parts.Chart, ...]:
    """Draw how the measures moved from answer to answer, the waves as bands behind them."""
    shown = [made for made in decisions if made.index is not None]
    series: dict[str, list[float | None]] = {AGREEMENT: [], "entropy": [], COMPARED: []}
    for made in shown:
        read = made.vote is not None
        series[AGREEMENT].append(made.confidence if read else None)
        series["entropy"].append(made.normalized_entropy if read else None)
        drawn = any(bound.curve == COMPARED for bound in RULES[made.rule].bounds)
        ruled = read and drawn and made.stop_reason in {None, "rule"}
        series[COMPARED].append(made.value if ruled else None)
    waves = groupby(shown, key=lambda made: made.wave)
    chart = parts.Chart(
        title="Agreement and entropy after each answer",
        axis="answers",
        curves=tuple(
            parts.Curve(name=name, points=tuple(points))
            for name, points in series.items()
            if any(value is not None for value in points)
        ),
        bounds=_bounds(request) if request else (),
        bands=tuple(parts.Band(f"wave {wave}", len([*group])) for wave, group in waves),
        places=tuple(str((made.index or 0) + 1) for made in shown),
        gap="no vote",
    )
    return (chart,) if chart.curves else ()


def _bounds(request: SelfConsistencyRequest) -> tuple[parts.Bound, ...]:
    """List the thresholds of the request's rule, and the curves that they are held against."""
    held = [
        (bound, bound.factor * getattr(request, bound.field))
        for bound in RULES[request.rule].bounds
    ]
    return tuple(
        parts.Bound(f"{bound.label} {value:.4g}", value, bound.curve) for bound, value in held
    )


def _response(response: Response) -> parts.Text:
    """Show what a model or a person said, and how it came to be."""
    vote = response.vote if response.vote != response.answer else None
    lost = response.error and ("(failed)" if response.failed else "(unreadable)")
    title = parts.said(
        f"{response.index + 1}.",
        None if response.answer is None else answer_words(response.answer),
        response.author and f"by {claimed(response.author)}",
        lost,
    )
    note = parts.said(
        vote is not None and f"counted as {answer_words(vote)}",
        response.finish_reason and f"finish reason {response.finish_reason}",
        parts.made_words(response),
    )
    content = parts.said(response.error, response.reasoning)
    return parts.Text(title=" ".join(title), content="\n\n".join(content), note="; ".join(note))
