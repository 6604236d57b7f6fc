"""The findings of a calibration: numbers, remarks, JSON document and sheet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from commands.measuring.calibrate import Evaluated, JudgePlan
from commands.measuring.plans import RESAMPLES, resamples
from reflection.batch.result import BatchResult
from reflection.batch.sheet import spent_words
from reflection.critique.calibration import Calibration, Estimate, calibrate
from reflection.sheet import EMBEDDED, Chart, Curve, Fact, Sheet, Table, Verdict, columns
from reflection.text import tally_words, terminal_safe, usd

FEW = 30
# More judges than this do not fit side by side in a terminal.
JUDGES_A_TABLE = 2
JUDGE_COLUMNS = 24
NONE = "-"


class JudgeFindings(NamedTuple):
    """A calibration with its data."""

    identity: str
    plan: JudgePlan
    pass_at: float
    evaluations: Sequence[Evaluated]
    batch: BatchResult
    judges: Sequence[Calibration]

    @property
    def all_failed(self) -> bool:
        """True if there is no score at all."""
        return all(one.scored.score is None for one in self.evaluations)

    def document(self) -> dict[str, Any]:
        """Build the JSON document, with the data to compute the numbers again."""
        return {
            "id": self.identity,
            "examples": len(self.plan.examples),
            "criteria": self.plan.judging.criteria,
            "pass_at": self.pass_at,
            "resamples": RESAMPLES,
            "judges": [judge.model_dump(mode="json") for judge in self.judges],
            "evaluations": [
                {
                    **one.scored.model_dump(mode="json"),
                    "label": self.plan.examples[one.scored.example].label,
                    "judged": one.judged,
                    "guardrails": one.guardrails,
                    "workflow_id": one.workflow_id,
                    "error": one.error,
                }
                for one in self.evaluations
            ],
            "batch": self.batch.model_dump(mode="json", exclude={"runs"}),
            "warnings": list(remarks(self)),
        }


def findings(
    identity: str,
    plan: JudgePlan,
    pass_at: float,
    evaluations: Sequence[Evaluated],
    batch: BatchResult,
) -> JudgeFindings:
    """Calibrate each judge; the same evaluations give the same intervals."""
    scored = [one.scored for one in evaluations]
    judges = calibrate(plan.examples, scored, resamples(len(plan.examples)), pass_at)
    ordered = sorted(judges, key=lambda judge: plan.judges.index(judge.judge))
    return JudgeFindings(identity, plan, pass_at, evaluations, batch, ordered)


def remarks(found: JudgeFindings) -> Iterator[str]:
    """Yield what a reader of the numbers needs to know."""
    for judge in found.plan.judges:
        if judge.startswith(EMBEDDED):
            yield f"{judge} is the embedded toy model: all numbers below are noise."
    yield from _on_examples(found)
    fired = [one.guardrails for one in found.evaluations if one.guardrails]
    if fired:
        yield (
            f"Guardrails ({', '.join(sorted({name for names in fired for name in names}))}) capped"
            f" {tally_words(len(fired), 'score')}, as in the loop; --no-guardrails shows the judge"
            " alone."
        )
    if found.batch.stop_reason != "completed":
        left = found.batch.not_started + found.batch.cancelled
        yield f"{tally_words(left, 'evaluation')} not made: {found.batch.stop_explanation}."
    for judge in found.plan.judges:
        listed = [one.scored for one in found.evaluations if one.scored.judge == judge]
        scores = {one.score for one in listed if one.score is not None and not one.reversed}
        if len(scores) == 1 and len({one.example for one in listed}) > 1:
            yield f"{judge} gives every draft a score of {scores.pop():.2f}: it tells nothing."
    failed = [one for one in found.evaluations if one.scored.score is None]
    said = Counter((one.scored.judge, one.error or "no reason is known") for one in failed)
    for (judge, error), count in said.most_common(3):
        yield f"{tally_words(count, 'evaluation')} by {judge} failed: {terminal_safe(error, 200)}"
    yield from found.batch.warnings


def _on_examples(found: JudgeFindings) -> Iterator[str]:
    examples, size = found.plan.examples, len(found.plan.examples)
    seen = min([judge.evaluated for judge in found.judges], default=0)
    if seen < FEW:
        yield f"{tally_words(seen, 'scored example')}, of {size}, are few: note the intervals."
    if sum(one.label >= found.pass_at for one in examples) in {0, size}:
        yield f"All labels are on one side of {found.pass_at:g}: no AUC and no threshold."
    if all(one.writer is None for one in examples):
        yield 'No "writer" is given, so there is no self-preference gap.'
    elif all(judge.self_preference.value is None for judge in found.judges):
        yield "No judge is the writer of some drafts alone, so there is no self-preference gap."


def sheet(found: JudgeFindings) -> Sheet:
    """Show what a calibration found; the sheet contains no draft."""
    plan, judges = found.plan, found.judges
    size = tally_words(len(plan.examples), "labelled draft")
    criteria = ", ".join(one.name for one in plan.judging.judged_by)
    turned = ", and 1 with the criteria reversed" if plan.turned else ""
    groups = [
        judges[start : start + JUDGES_A_TABLE] for start in range(0, len(judges), JUDGES_A_TABLE)
    ]
    facts = {
        "batch": found.identity,
        "criteria": f"{plan.judging.criteria_name}: {criteria}",
        "evaluations": f"{plan.repeats} of each draft{turned}",
        "pass": f"a label of {found.pass_at:g} or more",
        "guardrails": "as in the loop" if plan.judging.guardrails else "none",
        "spent": spent_words(found.batch),
        "best": "the value of a perfect judge",
    }
    return Sheet(
        subject="How good is the judge?",
        verdict=Verdict(
            words=f"{tally_words(len(plan.judges), 'judge')}, {size}",
            tone="bad" if found.all_failed else "plain",
            stop_reason=found.batch.stop_reason,
        ),
        facts=tuple(Fact(label=label, value=value) for label, value in facts.items()),
        flags=tuple(remarks(found)),
        charts=tuple(_diagram(judge) for judge in judges),
        tables=(
            *(_table("Scores beside labels, 95 % intervals", ESTIMATES, some) for some in groups),
            *(_table("Verdicts, repeats and cost", COUNTS, some) for some in groups),
            *(_bins(judge) for judge in judges),
            _verdicts(judges),
        ),
    )


def _table(
    title: str, rows: Sequence[tuple[str, str, Any]], judges: Sequence[Calibration]
) -> Table:
    names = [f"{terminal_safe(judge.judge, JUDGE_COLUMNS)}|number" for judge in judges]
    return Table(
        title=title,
        columns=columns("", "best|number", *names),
        rows=tuple((name, best, *(words(judge) for judge in judges)) for name, best, words in rows),
    )


def _diagram(judge: Calibration) -> Chart:
    """Draw mean labels beside mean scores; a generous judge has labels below its scores."""
    bins = judge.reliability
    said = [
        f"{one.count} with scores from {one.low:g} to {one.high:g}: mean score {one.score:.2f},"
        f" mean label {one.label:.2f}"
        if one.count
        else ""
        for one in bins
    ]
    labels = Curve(name="mean label", points=tuple(one.label for one in bins), labels=tuple(said))
    return Chart(
        title=f"Reliability of {judge.judge}",
        axis="scores; labels below scores: the judge is too generous",
        curves=(labels, Curve(name="mean score", points=tuple(one.score for one in bins))),
        places=tuple(f"{one.low:.1f}" for one in bins),
        gap="no draft",
    )


def _bins(judge: Calibration) -> Table:
    return Table(
        title=f"Reliability of {judge.judge}",
        columns=columns("scores", "drafts|number", "mean score|number", "mean label|number"),
        rows=tuple(
            (f"{one.low:.1f} to {one.high:.1f}", one.count, one.score, one.label)
            for one in judge.reliability
            if one.count
        ),
        folded=True,
    )


def _verdicts(judges: Sequence[Calibration]) -> Table:
    names = ("threshold", "accuracy", "Youden's J", "false passes", "false fails")
    rows = [
        (judge.judge, name, verdicts.threshold, share(verdicts.accuracy), verdicts.youden,
         verdicts.false_passes, verdicts.false_fails)
        for judge in judges
        for name, verdicts in (("recommended", judge.recommended), ("default", judge.at_source))
        if verdicts is not None
    ]  # fmt: skip
    return Table(
        title="Verdicts by threshold",
        columns=columns("judge", "", *(f"{name}|number" for name in names)),
        rows=tuple(rows),
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


def share(value: float | None) -> str:
    """Format a share in percent; None is a dash."""
    return NONE if value is None else f"{value:.0%}"


def _deviation(judge: Calibration) -> str:
    deviation = judge.repeatability.deviation
    return NONE if deviation is None else f"{deviation:.3f}"


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
    ("deviation when repeated", "0", _deviation),
    ("same verdict when repeated", "100%", lambda one: share(one.repeatability.same_verdict)),
    (
        "recommended threshold",
        "",
        lambda one: f"{one.recommended.threshold:.2f}" if one.recommended else "none",
    ),
    ("accuracy at it", "100%", lambda one: share(one.recommended and one.recommended.accuracy)),
    ("accuracy at 0.70", "100%", lambda one: share(one.at_source and one.at_source.accuracy)),
    ("evaluations", "", lambda judge: f"{judge.evaluations:,}"),
    ("of them failed", "0", lambda judge: f"{judge.failed_evaluations:,}"),
    ("tokens", "", lambda one: "unknown" if one.tokens is None else f"{one.tokens:,}"),
    ("cost", "", lambda judge: usd(judge.cost_usd)),
)
