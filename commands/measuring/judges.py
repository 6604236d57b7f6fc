"""What a calibration found: numbers, remarks, JSON document and sheet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from commands.measuring.batches import Findings, Read
from commands.measuring.calibrate import REVERSED, JudgePlan
from commands.measuring.maps import diagram
from reflection.batch.result import BatchResult
from reflection.batch.sheet import cost_words
from reflection.critique.calibration import (
    RESAMPLES,
    Calibration,
    Estimate,
    Scored,
    Verdicts,
    calibrate,
)
from reflection.critique.evaluation import Evaluation
from reflection.sheet import EMBEDDED, Fact, Sheet, Table, Verdict, columns
from reflection.text import tally_words, terminal_safe, usd

FEW = 30
# More judges than this do not fit side by side in a terminal.
JUDGES_A_TABLE = 2
JUDGE_COLUMNS = 24
NONE = "-"
AXIS = "scores; labels below scores: the judge is too generous"


def findings(plan: JudgePlan, identity: str, batch: BatchResult, reads: Sequence[Read]) -> Findings:
    """Calibrate each judge; the document has the data to compute the numbers again."""
    scored = evaluations(plan, reads)
    found = calibrate(plan.examples, scored, plan.pass_at)
    judges = sorted(found, key=lambda judge: plan.judges.index(judge.judge))
    said = (*_on_judges(plan, judges), *_on_runs(plan, scored, batch))
    failed = all(one.score is None for one in scored)
    document = {
        "id": identity,
        "examples": len(plan.examples),
        "criteria": plan.judging.criteria,
        "pass_at": plan.pass_at,
        "resamples": RESAMPLES,
        "judges": [judge.model_dump(mode="json") for judge in judges],
        "evaluations": [
            {**one.model_dump(mode="json"), "label": plan.examples[one.example].label}
            for one in scored
        ],
        "batch": batch.model_dump(mode="json", exclude={"runs"}),
        "warnings": list(said),
    }
    size = tally_words(len(plan.examples), "labelled draft")
    criteria = ", ".join(one.name for one in plan.judging.judged_by)
    turned = ", and 1 with the criteria reversed" if plan.turned else ""
    groups = [
        judges[start : start + JUDGES_A_TABLE] for start in range(0, len(judges), JUDGES_A_TABLE)
    ]
    facts = {
        "batch": identity,
        "criteria": f"{plan.judging.criteria_name}: {criteria}",
        "evaluations": f"{plan.repeats} of each draft{turned}",
        "pass": f"a label of {plan.pass_at:g} or more",
        "guardrails": "as in the loop" if plan.judging.guardrails else "none",
        "spent": cost_words(batch),
        "best": "the value of a perfect judge",
    }
    sheet = Sheet(
        subject="How good is the judge?",
        verdict=Verdict(
            words=f"{tally_words(len(plan.judges), 'judge')}, {size}",
            tone="bad" if failed else "plain",
        ),
        facts=tuple(Fact(label=label, value=value) for label, value in facts.items()),
        flags=said,
        charts=tuple(
            diagram(judge.judge, AXIS, judge.reliability, "mean label", "mean score")
            for judge in judges
        ),
        tables=(
            *(_table("Scores beside labels, 95 % intervals", ESTIMATES, some) for some in groups),
            *(_table("Verdicts, repeats and cost", COUNTS, some) for some in groups),
            *(_bins(judge) for judge in judges),
        ),
    )
    return Findings(document, sheet, failed)


def evaluations(plan: JudgePlan, reads: Sequence[Read]) -> list[Scored]:
    """List the evaluations that were made, without those not started or cancelled."""
    found = []
    for run, result, _ in reads:
        if run.status not in {"completed", "failed"}:
            continue
        drafts = result.drafts if result else ()
        evaluation = (drafts[0].evaluation if drafts else None) or Evaluation()
        scored = Scored(
            example=run.item,
            judge=plan.judges[int(run.variant.split("-")[1]) - 1],
            repeat=run.repeat,
            reversed=run.variant.endswith(REVERSED),
            score=evaluation.score,
            judged=evaluation.judged,
            scores=evaluation.criteria,
            guardrails=tuple(one.guardrail for one in evaluation.guardrails),
            tokens=run.tokens,
            cost_usd=run.cost_usd,
            workflow_id=run.workflow_id,
            error=evaluation.error or run.error,
        )
        found.append(scored)
    return found


def _on_judges(plan: JudgePlan, judges: Sequence[Calibration]) -> Iterator[str]:
    for judge in plan.judges:
        if judge.startswith(EMBEDDED):
            yield f"{judge} is the embedded toy model: all numbers below are noise."
    size = len(plan.examples)
    seen = min([judge.evaluated for judge in judges], default=0)
    if seen < FEW:
        yield f"{tally_words(seen, 'scored example')}, of {size}, are few: note the intervals."
    if sum(one.label >= plan.pass_at for one in plan.examples) in {0, size}:
        yield f"All labels are on one side of {plan.pass_at:g}: no AUC and no threshold."
    if all(one.writer is None for one in plan.examples):
        yield 'No "writer" is given, so there is no self-preference gap.'
    elif all(judge.self_preference.value is None for judge in judges):
        yield "No judge is the writer of some drafts alone, so there is no self-preference gap."


def _on_runs(plan: JudgePlan, scored: Sequence[Scored], batch: BatchResult) -> Iterator[str]:
    fired = [one.guardrails for one in scored if one.guardrails]
    if fired:
        names = ", ".join(sorted({name for names in fired for name in names}))
        capped = f"Guardrails ({names}) capped {tally_words(len(fired), 'score')}, as in the loop"
        yield f"{capped}; --no-guardrails shows the judge alone."
    if batch.stop_reason != "completed":
        left = tally_words(batch.not_started + batch.cancelled, "evaluation")
        yield f"{left} not made: {batch.stop_explanation}."
    for judge in plan.judges:
        listed = [one for one in scored if one.judge == judge]
        scores = {one.score for one in listed if one.score is not None and not one.reversed}
        if len(scores) == 1 and len({one.example for one in listed}) > 1:
            yield f"{judge} gives every draft a score of {scores.pop():.2f}: it tells nothing."
    failed = [one for one in scored if one.score is None]
    reasons = Counter((one.judge, one.error or "no reason is known") for one in failed)
    for (judge, error), count in reasons.most_common(3):
        yield f"{tally_words(count, 'evaluation')} by {judge} failed: {terminal_safe(error, 200)}"
    yield from batch.warnings


def _table(
    title: str, rows: Sequence[tuple[str, str, Any]], judges: Sequence[Calibration]
) -> Table:
    names = [f"{terminal_safe(judge.judge, JUDGE_COLUMNS)}|number" for judge in judges]
    return Table(
        title=title,
        columns=columns("", "best|number", *names),
        rows=tuple((name, best, *(words(judge) for judge in judges)) for name, best, words in rows),
    )


def _bins(judge: Calibration) -> Table:
    return Table(
        title=f"Reliability of {judge.judge}",
        columns=columns("scores", "drafts|number", "mean score|number", "mean label|number"),
        rows=tuple(
            (f"{one.low:.2f} to {one.high:.2f}", one.count, one.score, one.label)
            for one in judge.reliability
        ),
        folded=True,
    )


def estimate_words(found: Estimate, *, signed: bool = False) -> str:
    """Format a number to two places with its 95 % interval; undefined is a dash."""
    if found.value is None:
        return NONE
    # At two places -0.004 would be shown as -0.00: add 0.0 to drop the sign.
    value, *ends = (
        f"{round(number, 2) + 0.0:{'+' if signed else ''}.2f}"
        for number in (found.value, found.low, found.high)
        if number is not None
    )
    return f"{value} ({' to '.join(ends)})" if ends else value


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def _false(verdicts: Verdicts | None) -> str:
    return f"{verdicts.false_passes}, {verdicts.false_fails}" if verdicts else NONE


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


# The rows of both tables: a name, the value of a perfect judge, and this judge's value.
ESTIMATES = (
    ("examples scored", "", lambda judge: f"{judge.evaluated:,} of {judge.examples:,}"),
    ("Spearman's rank correlation", "1", lambda judge: estimate_words(judge.spearman)),
    ("Kendall's tau-b", "1", lambda judge: estimate_words(judge.kendall)),
    ("AUC, pass against fail", "1", lambda judge: estimate_words(judge.auc)),
    ("expected calibration error", "0", lambda judge: estimate_words(judge.calibration_error)),
    ("self-preference gap", "0", lambda one: estimate_words(one.self_preference, signed=True)),
    ("length bias", "0", lambda judge: estimate_words(judge.length_bias, signed=True)),
    ("position bias", "0", lambda judge: estimate_words(judge.position_bias, signed=True)),
)
COUNTS = (
    ("deviation when repeated", "0", lambda one: _number(one.repeatability.deviation, 3)),
    ("same verdict when repeated", "100%", lambda one: _share(one.repeatability.same_verdict)),
    (
        "recommended threshold",
        "",
        lambda one: _number(one.recommended and one.recommended.threshold, 2),
    ),
    ("accuracy at it", "100%", lambda one: _share(one.recommended and one.recommended.accuracy)),
    ("false passes, fails at it", "0, 0", lambda one: _false(one.recommended)),
    ("accuracy at 0.70", "100%", lambda one: _share(one.at_source and one.at_source.accuracy)),
    ("evaluations", "", lambda judge: f"{judge.evaluations:,}"),
    ("of them failed", "0", lambda judge: f"{judge.failed_evaluations:,}"),
    ("tokens", "", lambda one: "unknown" if one.tokens is None else f"{one.tokens:,}"),
    ("cost", "", lambda judge: usd(judge.cost_usd)),
)
