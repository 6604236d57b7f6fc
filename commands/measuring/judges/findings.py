"""What a calibration found: the numbers, what is to be said with them, and the document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from commands.measuring.judges.plan import Evaluated, Plan
from commands.rendering.panel import EMBEDDED
from reflection.batch.result import BatchResult
from reflection.critique.calibration.calibration import Calibration, calibrate
from reflection.text import tally_words, terminal_safe

RESAMPLES = 1_000
FEW = 30


class Findings(NamedTuple):
    """A calibration with all that it rests on."""

    identity: str
    plan: Plan
    pass_at: float
    evaluations: Sequence[Evaluated]
    batch: BatchResult
    judges: Sequence[Calibration]

    @property
    def all_failed(self) -> bool:
        """Whether there is no score at all."""
        return all(each.scored.score is None for each in self.evaluations)

    def remarks(self) -> list[str]:
        """Say what a reader of the numbers has to know."""
        return list(_remarks(self))

    def document(self) -> dict[str, Any]:
        """Put all of it together for a machine; the numbers can be computed again from it."""
        return {
            "id": self.identity,
            "examples": len(self.plan.examples),
            "criteria": self.plan.criteria,
            "pass_at": self.pass_at,
            "resamples": RESAMPLES,
            "judges": [each.model_dump(mode="json") for each in self.judges],
            "evaluations": [_row(self.plan, each) for each in self.evaluations],
            "batch": self.batch.model_dump(mode="json", exclude={"runs"}),
            "warnings": self.remarks(),
        }


def find(
    identity: str,
    plan: Plan,
    pass_at: float,
    evaluations: Sequence[Evaluated],
    batch: BatchResult,
) -> Findings:
    """Calibrate each judge; the same evaluations give the same intervals."""
    chance, size = Random(0), len(plan.examples)  # noqa: S311 - no secret
    resamples = (chance.choices(range(size), k=size) for _ in range(RESAMPLES))
    scored = [each.scored for each in evaluations]
    judges = calibrate(plan.examples, scored, resamples, pass_at)
    order = {judge: place for place, judge in enumerate(plan.judges)}
    ordered = sorted(judges, key=lambda each: order[each.judge])
    return Findings(identity, plan, pass_at, evaluations, batch, ordered)


def _row(plan: Plan, each: Evaluated) -> dict[str, Any]:
    return {
        **each.scored.model_dump(mode="json"),
        "label": plan.examples[each.scored.example].label,
        "judged": each.judged,
        "guardrails": each.guardrails,
        "workflow_id": each.workflow_id,
        "error": each.error,
    }


def _remarks(found: Findings) -> Iterator[str]:
    for judge in found.plan.judges:
        if judge.startswith(EMBEDDED):
            yield f"{judge} is the embedded toy model: as a judge it is noise, and so is all below."
    size = len(found.plan.examples)
    seen = min([each.evaluated for each in found.judges], default=0)
    if seen < FEW:
        yield f"{tally_words(seen, 'scored example')}, of {size}, are few: mind the intervals."
    passes = sum(each.label >= found.pass_at for each in found.plan.examples)
    if passes in {0, size}:
        yield f"All labels are on one side of {found.pass_at:g}: no AUC and no threshold."
    if all(each.writer is None for each in found.plan.examples):
        yield 'No "writer" is given, so there is no self-preference gap.'
    elif not any(each.self_preference.value is not None for each in found.judges):
        yield "No judge is the writer of some drafts alone, so there is no self-preference gap."
    capped = sum(bool(each.guardrails) for each in found.evaluations)
    if capped:
        named = sorted({name for each in found.evaluations for name in each.guardrails})
        said = (
            f"Guardrails ({', '.join(named)}) capped {tally_words(capped, 'score')}, as in the loop"
        )
        yield f"{said}; --no-guardrails shows the judge alone."
    if found.batch.stop_reason != "completed":
        left = found.batch.not_started + found.batch.cancelled
        yield f"{tally_words(left, 'evaluation')} not made: {found.batch.stop_explanation}."
    yield from _constant(found)
    yield from _failures(found)
    yield from found.batch.warnings


def _constant(found: Findings) -> Iterator[str]:
    for judge in found.plan.judges:
        listed = [each.scored for each in found.evaluations if each.scored.judge == judge]
        scores = {each.score for each in listed if each.score is not None and not each.reversed}
        if len(scores) == 1 and len({each.example for each in listed}) > 1:
            yield f"{judge} gives every draft the same score, {scores.pop():.2f}: it tells nothing."


def _failures(found: Findings) -> Iterator[str]:
    failed = [each for each in found.evaluations if each.scored.score is None]
    said = Counter((each.scored.judge, each.error or "no reason is known") for each in failed)
    for (judge, error), count in said.most_common(3):
        yield f"{tally_words(count, 'evaluation')} by {judge} failed: {terminal_safe(error, 200)}"
