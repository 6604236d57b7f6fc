"""What a run of self-consistency shows, finished or not: its answer, its votes, its waves.

A wave is the answers that are asked for at once; the rule decides after each one of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from reflection.details import bar
from reflection.sampling.request import SelfConsistencyRequest
from reflection.sampling.result import Decision, Progress, Response, SelfConsistencyResult
from reflection.sampling.rules import Rule
from reflection.sampling.tally import (
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
)
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
LABEL_COLUMNS = 40
COMPARED = "compared by the rule"
BOUNDS: Mapping[Rule, Sequence[tuple[str, float, str, str]]] = {
    "combined": (
        ("confidence_threshold", 1.0, "confidence threshold", "confidence"),
        ("confidence_threshold", 0.9, "score, at least", COMPARED),
        ("entropy_threshold", 1.0, "entropy threshold", "entropy"),
    ),
    "confidence_only": (("confidence_threshold", 1.0, "confidence threshold", "confidence"),),
    "off": (("confidence_threshold", 1.0, "confidence threshold", "confidence"),),
    "entropy_only": (("entropy_threshold", 1.0, "entropy threshold", "entropy"),),
    "predictive": (("epsilon", 1.0, "epsilon", COMPARED),),
    "beta": (("beta_threshold", 1.0, "beta threshold", COMPARED),),
}
UNCERTAINTY_TONES: Mapping[str, Tone] = {"low": "good", "medium": "warning", "high": "bad"}

Run = Progress | SelfConsistencyResult


def sheet(
    run: Run,
    decisions: Sequence[Decision] = (),
    request: SelfConsistencyRequest | None = None,
    newest: int | None = None,
) -> Sheet:
    """Tell a run; the decisions of one that goes on come from their own query.

    `request` knows the thresholds that curves are held against. With `newest` only so many
    decisions are told, and no steps: what is shown of a long run costs no more than of a short one.
    """
    made = run.decisions if isinstance(run, SelfConsistencyResult) else decisions
    told = made if newest is None else made[-newest:]
    leader = _leader(run)
    return Sheet(
        subject=run.question,
        verdict=_verdict(run, made),
        answer=None if leader is None else Text(title="answer", content=leader, note=_worth(run)),
        facts=_facts(run),
        flags=_flags(run) if isinstance(run, SelfConsistencyResult) else (),
        warnings=run.warnings if isinstance(run, SelfConsistencyResult) else (),
        charts=_charts(told, run.rule, request),
        tables=(_votes(run), usage_table(run.usage)),
        texts=_texts(run.responses) if isinstance(run, SelfConsistencyResult) else (),
        decisions=_decisions(told, len(made) - len(told)),
        steps=_steps(made, run.waves, request) if newest is None else (),
        busy=_busy(run) if isinstance(run, Progress) else "",
        waiting=Waiting(until=run.review_until)
        if isinstance(run, Progress) and run.needs_review
        else None,
    )


def answer_words(answer: str | None) -> str:
    """Name an answer; none and nothing have words too."""
    return "(unreadable)" if answer is None else answer.strip() or "(empty)"


def ranked(distribution: Mapping[str, float], votes: int) -> list[tuple[str, int, float]]:
    """List (answer, votes, share), most votes first, and among equals in the order first seen."""
    order = sorted(distribution.items(), key=lambda item: -item[1])
    return [(answer, round(share * votes), share) for answer, share in order]


def _leader(run: Run) -> str | None:
    return run.leader if isinstance(run, Progress) else run.final_answer


def _confidence(run: Run) -> float:
    return run.confidence if isinstance(run, Progress) else run.consensus_confidence


def _worth(run: Run) -> str:
    if run.stop_reason == "replaced_by_person" and isinstance(run, SelfConsistencyResult):
        return f"by {run.reviewer or 'a person'}"
    return f"confidence {_confidence(run):.2f}"


def _verdict(run: Run, decisions: Sequence[Decision]) -> Verdict:
    if isinstance(run, Progress):
        most = f"{run.total_responses} of at most {tally_words(run.max_responses, 'answer')}"
        if run.stop_reason is not None:
            why = decisions[-1].reason if decisions else run.stop_reason
            return Verdict(words=why, stop_reason=run.stop_reason)
        return Verdict(words=f"{_busy(run)}, {most}", tone="running")
    tone: Tone = "good" if run.conclusive else "warning"
    return Verdict(
        words=run.stop_explanation,
        tone=tone if run.final_answer is not None else "bad",
        stop_reason=run.stop_reason,
    )


def _busy(run: Progress) -> str:
    if run.needs_review:
        return "waiting for a person's review"
    flight = f", {tally_words(run.in_flight, 'call')} in flight" if run.in_flight else ""
    return f"wave {run.wave} is running{flight}"


def _flags(result: SelfConsistencyResult) -> tuple[str, ...]:
    answered = result.final_answer is not None
    few = f"only {result.valid_responses} of at least {result.min_responses} readable answers"
    voted = answer_words(result.voted_answer)
    found = [
        (
            result.stop_reason == "no_consensus" and answered,
            "no consensus: the answers do not support a conclusion",
        ),
        (not answered, "no answer could be read"),
        (
            result.cut_short and answered,
            f"cut short: {few}, so that the confidence means little",
        ),
        (
            result.voted_answer is not None,
            f"a person gave the answer; the votes gave another one: {voted}",
        ),
        (result.tied, "tied: the lead is shared, and the answer seen first was taken"),
        (not result.quorum_met, "the quorum of readable answers was not met"),
    ]
    return tuple(words for holds, words in found if holds)


def _facts(run: Run) -> tuple[Fact, ...]:
    votes = sorted(run.answer_distribution.values(), reverse=True)
    facts = []
    if isinstance(run, Progress):
        tied = "tied" if len(votes) > 1 and votes[0] == votes[1] else ""
        said = "no readable answer yet" if run.leader is None else answer_words(run.leader)
        facts.append(Fact(label="leader", value=said, note=tied))
    if run.valid_responses:
        sure = classify_uncertainty(_confidence(run))
        bits = run.entropy if isinstance(run, Progress) else run.distribution_entropy
        level = classify_entropy(run.normalized_entropy)
        consensus = classify_consensus(_confidence(run), votes[1] if len(votes) > 1 else 0.0)
        facts += [
            Fact(
                label="confidence",
                value=f"{_confidence(run):.2f}",
                note=f"uncertainty {sure}",
                tone=UNCERTAINTY_TONES[sure],
            ),
            Fact(
                label="entropy",
                value=f"{run.normalized_entropy:.2f}",
                note=f"{level}, {bits:.2f} bits; 0: all agree, 1: all answers alike often",
            ),
            Fact(label="consensus", value=consensus),
        ]
    facts.append(Fact(label="answers", value=_answers(run)))
    if isinstance(run, SelfConsistencyResult):
        errors = Counter(response.error for response in run.responses if response.error)
        facts += [
            Fact(label="error", value=error, note=f"{count} x", tone="warning")
            for error, count in errors.most_common(MOST_ERRORS)
        ]
    facts.append(Fact(label="stopping rule", value=run.rule))
    facts.append(Fact(label="spent", value=spent_words(run.usage)))
    return (*facts, *([model_fact(run.model, "answers")] if run.model else []))


def _answers(run: Run) -> str:
    unread = run.total_responses - run.valid_responses
    lost = f", {unread} unreadable" if unread else ""
    lengths = " + ".join(str(length) for length in run.waves[:MOST_WAVES])
    more = " + …" if len(run.waves) > MOST_WAVES else ""
    waves = f", in {tally_words(len(run.waves), 'wave')} ({lengths}{more})" if run.waves else ""
    return f"{run.total_responses}{lost}{waves}"


def _votes(run: Run) -> Table:
    rows: list[tuple[str | int | float, ...]] = [
        (answer_words(answer), votes, share)
        for answer, votes, share in ranked(run.answer_distribution, run.valid_responses)
    ]
    unread = run.total_responses - run.valid_responses
    if unread:
        rows.append((f"{answer_words(None)}: {tally_words(unread, 'answer')}", 0, 0.0))
    names = columns("answer", "votes|number", "share|share")
    return Table(title="Votes", columns=names, rows=tuple(rows))


def _decisions(decisions: Sequence[Decision], earlier: int) -> Table:
    names = columns(
        "#|number", "wave|number", "vote", "lead|number", "confidence|number", "entropy|number",
        "compared|extra", "decision", "leader|extra", "reason|extra",
    )  # fmt: skip
    return Table(
        title="Decisions",
        columns=names,
        rows=tuple(_decision(decision) for decision in decisions),
        newest=True,
        earlier=earlier,
        tones=tuple("running" if decision.stop else "plain" for decision in decisions),
    )


def _decision(decision: Decision) -> tuple[str | int | float | None, ...]:
    person = f" by {decision.author}" if decision.author else ""
    return (
        None if decision.index is None else decision.index + 1,
        decision.wave,
        "-" if decision.index is None else answer_words(decision.vote),
        f"{decision.leader_votes}-{decision.runner_up_votes}",
        decision.confidence,
        decision.normalized_entropy,
        _comparison(decision),
        f"{'stop' if decision.stop else 'go on'}{person}",
        "none" if decision.leader is None else answer_words(decision.leader),
        decision.reason,
    )


def _comparison(decision: Decision) -> str:
    """Write the number that the rule looked at beside its bound, or nothing where there is none."""
    if decision.value is None or decision.bound is None:
        return ""
    return f"{decision.value:.3g} vs {decision.bound:.3g}"


def _steps(
    decisions: Sequence[Decision],
    waves: Sequence[int],
    request: SelfConsistencyRequest | None,
) -> tuple[Step, ...]:
    """Tell a wave once all of it is counted, then each thing that a bound or a person did."""
    steps, counted, columns_ = [], Counter[int](), 3
    most = f" of {request.max_responses}" if request else ""
    for decision in decisions:
        columns_ = max(columns_, min(LEADER_COLUMNS, width(decision.leader or "")))
        counted[decision.wave] += decision.index is not None
        length = waves[decision.wave - 1] if 0 < decision.wave <= len(waves) else 0
        whole = decision.index is not None and counted[decision.wave] == length
        if whole or decision.stop or decision.author:
            steps.append(_step(decision, most, columns_))
    return tuple(steps)


def _step(decision: Decision, most: str, leader_columns: int) -> Step:
    word = "stop" if decision.stop else "go on"
    person = f" (by {decision.author})" if decision.author else ""
    tone: Tone = "running" if decision.stop else "plain"
    if decision.index is None:
        return Step(words=f"{word}: {decision.reason}{person}", tone=tone)
    leader = "-" if decision.leader is None else answer_words(decision.leader)
    said = (
        f"wave {decision.wave:<2} {decision.total_responses:>3}{most}  "
        f"{padded(terminal_safe(leader, LEADER_COLUMNS), leader_columns)}  "
        f"{decision.confidence:.2f} {bar(decision.confidence, 8)}  "
        f"entropy {decision.normalized_entropy:.2f}  {word}: "
    )
    short = _comparison(decision) or decision.reason
    return Step(words=f"{said}{decision.reason}{person}", short=f"{said}{short}{person}", tone=tone)


def _charts(
    decisions: Sequence[Decision], rule: Rule, request: SelfConsistencyRequest | None
) -> tuple[Chart, ...]:
    """Draw how the measures moved from answer to answer, the waves as bands behind them."""
    shown = [decision for decision in decisions if decision.index is not None]
    if not any(decision.vote is not None for decision in shown):
        return ()
    read = [decision if decision.vote is not None else None for decision in shown]
    series = {
        "confidence": [one.confidence if one else None for one in read],
        "entropy": [one.normalized_entropy if one else None for one in read],
        COMPARED: [_compared(one) if one else None for one in read],
    }
    if rule not in {"combined", "predictive", "beta"}:
        del series[COMPARED]
    curves = tuple(
        Curve(name=name, points=tuple(points), labels=_labels(shown, name, points))
        for name, points in series.items()
        if any(value is not None for value in points)
    )
    waves = groupby(shown, key=lambda decision: decision.wave)
    return (
        Chart(
            title="Confidence and entropy after each answer",
            axis="answers",
            curves=curves,
            bounds=_bounds(shown, rule, request),
            bands=tuple(Band(label=f"wave {wave}", points=len([*group])) for wave, group in waves),
            places=tuple(str((decision.index or 0) + 1) for decision in shown),
            gap="unreadable answer",
        ),
    )


def _labels(
    decisions: Sequence[Decision], name: str, points: Sequence[float | None]
) -> tuple[str, ...]:
    votes = [terminal_safe(answer_words(decision.vote), LABEL_COLUMNS) for decision in decisions]
    return tuple(
        f"answer {(decision.index or 0) + 1}, {vote}: {name} {0 if value is None else value:.4g}"
        for decision, vote, value in zip(decisions, votes, points, strict=True)
    )


def _bounds(
    decisions: Sequence[Decision], rule: Rule, request: SelfConsistencyRequest | None
) -> tuple[Bound, ...]:
    """List what the rule holds the curves against; what nobody knows comes from the decisions."""
    found = [
        Bound(label=f"{label} {value * factor:.4g}", value=value * factor, curve=curve)
        for field, factor, label, curve in BOUNDS.get(rule, ())
        if request and isinstance(value := getattr(request, field), int | float)
    ]
    known = {round(bound.value, 9) for bound in found}
    met = {round(one.bound or 0.0, 9) for one in decisions if _compared(one) is not None}
    more = (
        Bound(label=f"bound {value:.4g}", value=value, curve=COMPARED)
        for value in sorted(met - known)
    )
    return (*found, *more)


def _compared(decision: Decision) -> float | None:
    """Return what the rule compared where it is a share or a probability: 0 to 1, else None."""
    value, bound = decision.value, decision.bound
    if value is None or bound is None or decision.stop_reason not in {None, "rule"}:
        return None
    return value if 0 <= value <= 1 and 0 < bound <= 1 else None


def _texts(responses: Sequence[Response]) -> tuple[Text, ...]:
    return tuple(
        Text(
            title=f"{response.index + 1}. {answer_words(response.answer)}"
            + (f" by {response.author}" if response.author else "")
            + (" (failed)" if response.error else ""),
            content="\n\n".join(filter(None, (response.error, response.reasoning))),
            note=_origin(response),
        )
        for response in responses
    )


def _origin(response: Response) -> str:
    """Say how a response came to be."""
    other = response.vote is not None and response.vote != response.answer
    known = (
        f"counted as {answer_words(response.vote)}" if other else None,
        response.model,
        None if response.seed is None else f"seed {response.seed}",
        response.finish_reason and f"finish reason {response.finish_reason}",
        moment_words(response.timestamp),
        tally_words(response.attempts, "attempt") if response.attempts else None,
        response.spending and spent_words(response.spending),
    )
    return "; ".join(part for part in known if part)
