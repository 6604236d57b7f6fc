"""The sheet of a self-consistency run, running or finished: answer, votes and waves.

A wave is the answers that are asked for at once; the rule decides after each one of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from reflection.details import bar
from reflection.sampling.request import SelfConsistencyRequest
from reflection.sampling.result import Decision, Progress, Response, SelfConsistencyResult
from reflection.sampling.rules import COMPARED, RULES, Rule
from reflection.sampling.tally import classify_consensus, classify_entropy, classify_uncertainty
from reflection.sheet import (
    Band,
    Bound,
    Chart,
    Curve,
    Fact,
    Sheet,
    Step,
    Table,
    Text,
    Tone,
    Verdict,
    Waiting,
    columns,
    model_fact,
    moment_words,
    usage_table,
)
from reflection.text import padded, spent_words, tally_words, terminal_safe, width

MOST_ERRORS = 3
MOST_WAVES = 12
LEADER_COLUMNS = 12
UNCERTAINTY_TONES: Mapping[str, Tone] = {"low": "good", "medium": "warning", "high": "bad"}


def sheet(
    seen: Progress | SelfConsistencyResult,
    decisions: Sequence[Decision] = (),
    request: SelfConsistencyRequest | None = None,
    newest: int | None = None,
) -> Sheet:
    """Build the sheet of a run; while it runs, its decisions come from a separate query.

    `request` knows the thresholds that curves are held against. With `newest` only so many
    decisions are told, and no steps: what is shown of a long run costs no more than of a short one.
    """
    made = seen.decisions if isinstance(seen, SelfConsistencyResult) else decisions
    told = made if newest is None else made[-newest:]
    table = _decisions(told, len(made) - len(told))
    steps = _steps(made, seen.waves, request) if newest is None else ()
    known = {"decisions": table, "steps": steps, "charts": _charts(told, seen.rule, request)}
    shown = _finished(seen) if isinstance(seen, SelfConsistencyResult) else _going_on(seen, made)
    return shown.model_copy(update=known)


def _finished(result: SelfConsistencyResult) -> Sheet:
    answer, confidence = result.final_answer, result.consensus_confidence
    worth = f"confidence {confidence:.2f}"
    if result.stop_reason == "replaced_by_person":
        worth = f"by {result.reviewer or 'a person'}"
    errors = Counter(response.error for response in result.responses if response.error)
    failures = [
        Fact(label="error", value=error, note=f"{count} x", tone="warning")
        for error, count in errors.most_common(MOST_ERRORS)
    ]
    tone: Tone = "good" if result.conclusive else "warning"
    return Sheet(
        subject=result.question,
        verdict=Verdict(
            words=result.stop_explanation,
            tone="bad" if answer is None else tone,
            stop_reason=result.stop_reason,
        ),
        answer=None if answer is None else Text(title="answer", content=answer, note=worth),
        facts=(
            *_measures(result, confidence, result.distribution_entropy),
            _answers(result),
            *failures,
            *_settings(result),
        ),
        flags=tuple(_flags(result)),
        warnings=result.warnings,
        tables=(_votes(result), usage_table(result.usage)),
        texts=tuple(map(_response, result.responses)),
    )


def _going_on(progress: Progress, decisions: Sequence[Decision]) -> Sheet:
    leader, confidence = progress.leader, progress.confidence
    busy = "waiting for a person's review"
    if not progress.needs_review:
        calls = tally_words(progress.in_flight, "call")
        busy = f"wave {progress.wave} is running"
        busy += f", {calls} in flight" if progress.in_flight else ""
    most = f"{progress.total_responses} of at most {tally_words(progress.max_responses, 'answer')}"
    verdict = Verdict(words=f"{busy}, {most}", tone="running")
    if progress.stop_reason is not None:
        why = decisions[-1].reason if decisions else progress.stop_reason
        verdict = Verdict(words=why, stop_reason=progress.stop_reason)
    shares = sorted(progress.answer_distribution.values(), reverse=True)
    leading = Fact(
        label="leader",
        value="no readable answer yet" if leader is None else answer_words(leader),
        note="tied" if len(shares) > 1 and shares[0] == shares[1] else "",
    )
    worth = f"confidence {confidence:.2f}"
    return Sheet(
        subject=progress.question,
        verdict=verdict,
        answer=None if leader is None else Text(title="answer", content=leader, note=worth),
        facts=(
            leading,
            *_measures(progress, confidence, progress.entropy),
            _answers(progress),
            *_settings(progress),
        ),
        tables=(_votes(progress), usage_table(progress.usage)),
        busy=busy,
        waiting=Waiting(until=progress.review_until) if progress.needs_review else None,
    )


def answer_words(answer: str | None) -> str:
    """Write an answer; a missing or empty one gets words too."""
    return "(unreadable)" if answer is None else answer.strip() or "(empty)"


def _measures(
    seen: Progress | SelfConsistencyResult, confidence: float, bits: float
) -> tuple[Fact, ...]:
    if not seen.valid_responses:
        return ()
    first, second, *_ = *sorted(seen.answer_distribution.values(), reverse=True), 0.0
    uncertainty, level = classify_uncertainty(confidence), classify_entropy(seen.normalized_entropy)
    return (
        Fact(
            label="confidence",
            value=f"{confidence:.2f}",
            note=f"uncertainty {uncertainty}",
            tone=UNCERTAINTY_TONES[uncertainty],
        ),
        Fact(
            label="entropy",
            value=f"{seen.normalized_entropy:.2f}",
            note=f"{level}, {bits:.2f} bits; 0: all agree, 1: all answers equally frequent",
        ),
        Fact(label="consensus", value=classify_consensus(first, second)),
    )


def _answers(seen: Progress | SelfConsistencyResult) -> Fact:
    unread = seen.total_responses - seen.valid_responses
    lost = f", {unread} unreadable" if unread else ""
    lengths = " + ".join(map(str, seen.waves[:MOST_WAVES]))
    more = " + …" if len(seen.waves) > MOST_WAVES else ""
    waves = f", in {tally_words(len(seen.waves), 'wave')} ({lengths}{more})" if seen.waves else ""
    return Fact(label="answers", value=f"{seen.total_responses}{lost}{waves}")


def _settings(seen: Progress | SelfConsistencyResult) -> tuple[Fact, ...]:
    rule = Fact(label="stopping rule", value=seen.rule)
    spent = Fact(label="spent", value=spent_words(seen.usage))
    return (rule, spent, model_fact(seen.model, "answers")) if seen.model else (rule, spent)


def _flags(result: SelfConsistencyResult) -> list[str]:
    flags = []
    if result.final_answer is None:
        flags.append("no answer could be read")
    elif result.stop_reason == "no_consensus":
        flags.append("no consensus: the answers do not support a conclusion")
    if result.cut_short and result.final_answer is not None:
        few = f"only {result.valid_responses} of at least {result.min_responses} readable answers"
        flags.append(f"cut short: {few}, so the confidence means little")
    if result.voted_answer is not None:
        voted = answer_words(result.voted_answer)
        flags.append(f"a person gave the answer; the votes gave another one: {voted}")
    if result.tied:
        flags.append("tied: several answers share the lead, and the one seen first was taken")
    if not result.quorum_met:
        flags.append("the quorum of readable answers was not met")
    return flags


def _votes(seen: Progress | SelfConsistencyResult) -> Table:
    """List the answers, most votes first, and among equals in the order first seen."""
    order = sorted(seen.answer_distribution.items(), key=lambda item: -item[1])
    rows = [
        (answer_words(answer), round(share * seen.valid_responses), share)
        for answer, share in order
    ]
    unread = seen.total_responses - seen.valid_responses
    if unread:
        rows.append((f"{answer_words(None)}: {tally_words(unread, 'answer')}", 0, 0.0))
    names = columns("answer", "votes|number", "share|share")
    return Table(title="Votes", columns=names, rows=tuple(rows))


def _decisions(decisions: Sequence[Decision], earlier: int) -> Table:
    return Table(
        title="Decisions",
        columns=columns(
            "#|number", "wave|number", "vote", "lead|number", "confidence|number",
            "entropy|number", "compared|extra", "decision", "leader|extra", "reason|extra",
        ),
        rows=tuple(
            (
                None if made.index is None else made.index + 1,
                made.wave,
                "-" if made.index is None else answer_words(made.vote),
                f"{made.leader_votes}-{made.runner_up_votes}",
                made.confidence,
                made.normalized_entropy,
                _comparison(made),
                f"{_outcome(made)}{f' by {made.author}' if made.author else ''}",
                "none" if made.leader is None else answer_words(made.leader),
                made.reason,
            )
            for made in decisions
        ),
        newest=True,
        earlier=earlier,
        tones=tuple("running" if made.stop else "plain" for made in decisions),
    )  # fmt: skip


def _outcome(decision: Decision) -> str:
    return "stop" if decision.stop else "go on"


def _comparison(decision: Decision) -> str:
    """Write the number that the rule looked at beside its bound, or nothing where there is none."""
    if decision.value is None or decision.bound is None:
        return ""
    return f"{decision.value:.3g} vs {decision.bound:.3g}"


def _steps(
    decisions: Sequence[Decision], waves: Sequence[int], request: SelfConsistencyRequest | None
) -> tuple[Step, ...]:
    """Write a line for each wave once it is counted, and for each stop or act of a person."""
    steps, counted, leader_columns = [], Counter[int](), 3
    most = f" of {request.max_responses}" if request else ""
    for made in decisions:
        leader_columns = max(leader_columns, min(LEADER_COLUMNS, width(made.leader or "")))
        counted[made.wave] += made.index is not None
        length = waves[made.wave - 1] if 0 < made.wave <= len(waves) else 0
        whole = made.index is not None and counted[made.wave] == length
        if not (whole or made.stop or made.author):
            continue
        said = ""
        if made.index is not None:
            leader = "-" if made.leader is None else answer_words(made.leader)
            said = (
                f"wave {made.wave:<2} {made.total_responses:>3}{most}  "
                f"{padded(terminal_safe(leader, LEADER_COLUMNS), leader_columns)}  "
                f"{made.confidence:.2f} {bar(made.confidence, 8)}  "
                f"entropy {made.normalized_entropy:.2f}  "
            )
        short, full = (
            f"{said}{_outcome(made)}: {why}{f' (by {made.author})' if made.author else ''}"
            for why in (_comparison(made) or made.reason, made.reason)
        )
        tone: Tone = "running" if made.stop else "plain"
        steps.append(Step(words=full, short=short if said else "", tone=tone))
    return tuple(steps)


def _charts(
    decisions: Sequence[Decision], rule: Rule, request: SelfConsistencyRequest | None
) -> tuple[Chart, ...]:
    """Draw how the measures moved from answer to answer, the waves as bands behind them."""
    shown = [made for made in decisions if made.index is not None]
    if not any(made.vote is not None for made in shown):
        return ()
    read = [made if made.vote is not None else None for made in shown]
    series = {
        "confidence": [made.confidence if made else None for made in read],
        "entropy": [made.normalized_entropy if made else None for made in read],
    }
    compared = [_compared(made) if made else None for made in read]
    drawn = any(bound.curve == COMPARED for bound in RULES[rule].bounds)
    if drawn and any(at is not None for at in compared):
        series[COMPARED] = compared
    waves = groupby(shown, key=lambda made: made.wave)
    places = tuple(str((made.index or 0) + 1) for made in shown)
    votes = [terminal_safe(answer_words(made.vote), 40) for made in shown]
    named = [f"answer {place}, {vote}" for place, vote in zip(places, votes, strict=True)]
    bounds = [
        (label, getattr(request, field) * factor, curve)
        for field, label, curve, factor in RULES[rule].bounds
        if request is not None
    ]
    return (
        Chart(
            title="Confidence and entropy after each answer",
            axis="answers",
            curves=tuple(_curve(name, points, named) for name, points in series.items()),
            bounds=tuple(
                Bound(label=f"{label} {value:.4g}", value=value, curve=curve)
                for label, value, curve in bounds
            ),
            bands=tuple(Band(label=f"wave {wave}", points=len([*group])) for wave, group in waves),
            places=places,
            gap="unreadable answer",
        ),
    )


def _curve(name: str, points: Sequence[float | None], named: Sequence[str]) -> Curve:
    labels = (
        f"{answer}: {name} {0 if value is None else value:.4g}"
        for answer, value in zip(named, points, strict=True)
    )
    return Curve(name=name, points=tuple(points), labels=tuple(labels))


def _compared(decision: Decision) -> float | None:
    """Return what the rule compared where it is a share or a probability: 0 to 1, else None."""
    value, bound = decision.value, decision.bound
    if value is None or bound is None or decision.stop_reason not in {None, "rule"}:
        return None
    return value if 0 <= value <= 1 and 0 < bound <= 1 else None


def _response(response: Response) -> Text:
    """Show what a model or a person said, and how it came to be."""
    by = f" by {response.author}" if response.author else ""
    failed = " (failed)" if response.error else ""
    other = response.vote is not None and response.vote != response.answer
    known = (
        other and f"counted as {answer_words(response.vote)}",
        response.model,
        response.seed is not None and f"seed {response.seed}",
        response.finish_reason and f"finish reason {response.finish_reason}",
        moment_words(response.timestamp),
        response.attempts and tally_words(response.attempts, "attempt"),
        response.spending and spent_words(response.spending),
    )
    return Text(
        title=f"{response.index + 1}. {answer_words(response.answer)}{by}{failed}",
        content="\n\n".join(filter(None, (response.error, response.reasoning))),
        note="; ".join(part for part in known if part),
    )
