"""Judges held against labels: which evaluations are made, and what is said of their numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import ValidationError

from commands.measuring.batches import Read, request_of
from commands.measuring.files import Fields, LineError, read_lines, text_of
from commands.measuring.spend import Calls, Forecast, tokens_of
from commands.session import Exit, fail
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchResult
from reflection.batch.sheet import spent_words
from reflection.critique.calibration import Calibration, Example, Scored, Verdicts, calibrate
from reflection.critique.criteria import PRESETS, CriteriaPreset
from reflection.critique.evaluation import Evaluation
from reflection.critique.prompts import build_judge_prompt
from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.statistics import Estimate
from reflection.run import explain
from reflection.sheet import EMBEDDED, Chart, Curve, Fact, Sheet, Table, Verdict, columns
from reflection.text import tally_words, terminal_safe, usd

FORM = '{"query": "...", "draft": "...", "label": 0.8}'
WORDS = {"pass": 1.0, "fail": 0.0}
# Of one evaluation: scores, and three or four pieces of feedback.
TOKENS_OUT = 350
REVERSED = "reversed"
RESAMPLES = 1_000
FEW = 30
# More judges than this would not stand side by side in a terminal.
JUDGES_A_TABLE = 2
JUDGE_COLUMNS = 24
NONE = "-"


def read_examples(file: Path) -> list[Example]:
    """Read every labelled draft of a file, or end with exit code 2 and the line that is wrong."""
    return read_lines(file, _example, FORM)


def _example(fields: Fields) -> Example:
    query, draft = text_of(fields, "query"), text_of(fields, "draft")
    try:
        ReflectOnResultRequest(query=query, draft=draft, max_revisions=0)
    except ValidationError as error:
        raise LineError(explain(error)) from None
    label = fields.get("label")
    value = WORDS.get(label.strip().lower()) if isinstance(label, str) else label
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise LineError('"label" is not 0 to 1, true, false, "pass" or "fail"')
    writer = None if fields.get("writer") is None else text_of(fields, "writer")
    return Example(query=query, draft=draft, label=float(value), writer=writer)


def preset(name: str) -> CriteriaPreset:
    """Find a preset by its name; another word ends with exit code 2."""
    found = next((known for known in PRESETS if known == name), None)
    if found is None:
        fail(f"--criteria: one of {', '.join(PRESETS)}.", Exit.USAGE)
    return found


def judging(judges: Sequence[str], criteria: object, *, guardrails: bool) -> dict[str, Any]:
    """Make the fields by which a request judges, however simple its query is."""
    fields = {"judges": list(judges), "criteria": criteria, "complexity": 1.0}
    return fields if guardrails else {**fields, "guardrails": []}


def judge_prompt(query: str, draft: str, criteria: CriteriaPreset) -> str:
    """Write what a judge is sent by default."""
    threshold: float = ReflectOnResultRequest.model_fields["score_threshold"].default
    return build_judge_prompt(query, draft, PRESETS[criteria], threshold)


def resamples(size: int) -> list[list[int]]:
    """Draw as many places as there are, with replacement, the same ones each time."""
    chance = Random(0)  # noqa: S311 - no secret
    return [chance.choices(range(size), k=size) for _ in range(RESAMPLES)]


class Plan(NamedTuple):
    """Who judges what: each judge every example, `repeats` times, and once in reverse order."""

    examples: Sequence[Example]
    judges: Sequence[str]
    criteria: CriteriaPreset
    repeats: int
    reversed: bool
    guardrails: bool

    @property
    def turned(self) -> bool:
        """True where examples are judged in reverse order too: one criterion has no order."""
        return self.reversed and len(PRESETS[self.criteria]) > 1

    def request(self, bounds: dict[str, Any]) -> BatchRequest:
        """Make the batch of it; what does not fit is one line and exit code 2."""
        items = [{"query": one.query, "draft": one.draft} for one in self.examples]
        return request_of(items, list(self._variants()), bounds)

    def forecast(self) -> Forecast:
        """Count the calls of each judge and their tokens, by the very prompts."""
        times = self.repeats + self.turned
        size = tokens_of(judge_prompt(one.query, one.draft, self.criteria) for one in self.examples)
        calls = times * len(self.examples)
        parts = [
            Calls("evaluating", judge, calls, times * size, calls * TOKENS_OUT)
            for judge in self.judges
        ]
        return Forecast(parts, f"and {TOKENS_OUT} out for an evaluation")

    def _variants(self) -> Iterator[dict[str, Any]]:
        back = [one.model_dump(mode="json") for one in reversed(PRESETS[self.criteria])]
        for number, judge in enumerate(self.judges, start=1):
            yield self._variant(f"judge-{number}", judge, self.criteria, self.repeats)
            if self.turned:
                yield self._variant(f"judge-{number}-{REVERSED}", judge, back, 1)

    def _variant(self, name: str, judge: str, criteria: object, repeats: int) -> dict[str, Any]:
        alone = judging([judge], criteria, guardrails=self.guardrails) | {"max_revisions": 0}
        return {
            "name": name,
            "workflow": "ReflectOnResultWorkflow",
            "request": alone,
            "takes": {"query": "query", "draft": "draft"},
            "repeats": repeats,
        }


class Evaluated(NamedTuple):
    """One evaluation that was made, and what there is besides its score."""

    scored: Scored
    workflow_id: str
    judged: float | None
    guardrails: tuple[str, ...]
    error: str | None


def evaluated(plan: Plan, reads: Sequence[Read]) -> list[Evaluated]:
    """List the evaluations that were made; those not started, or cancelled, are none."""
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
            scores=evaluation.criteria,
            tokens=run.tokens,
            cost_usd=run.cost_usd,
        )
        fired = tuple(one.guardrail for one in evaluation.guardrails)
        error = evaluation.error or run.error
        found.append(Evaluated(scored, run.workflow_id, evaluation.judged, fired, error))
    return found


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
        """True where there is no score at all."""
        return all(one.scored.score is None for one in self.evaluations)

    def document(self) -> dict[str, Any]:
        """Put all of it together for a machine; the numbers can be computed again from it."""
        return {
            "id": self.identity,
            "examples": len(self.plan.examples),
            "criteria": self.plan.criteria,
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


def find(
    identity: str,
    plan: Plan,
    pass_at: float,
    evaluations: Sequence[Evaluated],
    batch: BatchResult,
) -> Findings:
    """Calibrate each judge; the same evaluations give the same intervals."""
    scored = [one.scored for one in evaluations]
    judges = calibrate(plan.examples, scored, resamples(len(plan.examples)), pass_at)
    ordered = sorted(judges, key=lambda judge: plan.judges.index(judge.judge))
    return Findings(identity, plan, pass_at, evaluations, batch, ordered)


def remarks(found: Findings) -> Iterator[str]:
    """Say what a reader of the numbers has to know."""
    for judge in found.plan.judges:
        if judge.startswith(EMBEDDED):
            yield f"{judge} is the embedded toy model: as a judge it is noise, and so is all below."
    yield from _on_examples(found)
    capped = sum(bool(one.guardrails) for one in found.evaluations)
    if capped:
        named = sorted({name for one in found.evaluations for name in one.guardrails})
        yield (
            f"Guardrails ({', '.join(named)}) capped {tally_words(capped, 'score')}, as in the"
            " loop; --no-guardrails shows the judge alone."
        )
    if found.batch.stop_reason != "completed":
        left = found.batch.not_started + found.batch.cancelled
        yield f"{tally_words(left, 'evaluation')} not made: {found.batch.stop_explanation}."
    for judge in found.plan.judges:
        listed = [one.scored for one in found.evaluations if one.scored.judge == judge]
        scores = {one.score for one in listed if one.score is not None and not one.reversed}
        if len(scores) == 1 and len({one.example for one in listed}) > 1:
            yield f"{judge} gives every draft the same score, {scores.pop():.2f}: it tells nothing."
    failed = [one for one in found.evaluations if one.scored.score is None]
    said = Counter((one.scored.judge, one.error or "no reason is known") for one in failed)
    for (judge, error), count in said.most_common(3):
        yield f"{tally_words(count, 'evaluation')} by {judge} failed: {terminal_safe(error, 200)}"
    yield from found.batch.warnings


def _on_examples(found: Findings) -> Iterator[str]:
    examples, size = found.plan.examples, len(found.plan.examples)
    seen = min([judge.evaluated for judge in found.judges], default=0)
    if seen < FEW:
        yield f"{tally_words(seen, 'scored example')}, of {size}, are few: mind the intervals."
    if sum(one.label >= found.pass_at for one in examples) in {0, size}:
        yield f"All labels are on one side of {found.pass_at:g}: no AUC and no threshold."
    if all(one.writer is None for one in examples):
        yield 'No "writer" is given, so there is no self-preference gap.'
    elif not any(judge.self_preference.value is not None for judge in found.judges):
        yield "No judge is the writer of some drafts alone, so there is no self-preference gap."


def sheet(found: Findings) -> Sheet:
    """Tell what a calibration found; no draft is on the sheet."""
    plan, judges = found.plan, found.judges
    size = tally_words(len(plan.examples), "labelled draft")
    criteria = ", ".join(one.name for one in PRESETS[plan.criteria])
    turned = ", and 1 with the criteria reversed" if plan.turned else ""
    groups = [
        judges[start : start + JUDGES_A_TABLE] for start in range(0, len(judges), JUDGES_A_TABLE)
    ]
    return Sheet(
        subject="How good is the judge?",
        verdict=Verdict(
            words=f"{tally_words(len(plan.judges), 'judge')}, {size}",
            tone="bad" if found.all_failed else "plain",
            stop_reason=found.batch.stop_reason,
        ),
        facts=(
            Fact(label="batch", value=found.identity),
            Fact(label="criteria", value=f"{plan.criteria}: {criteria}"),
            Fact(label="evaluations", value=f"{plan.repeats} of each draft{turned}"),
            Fact(label="pass", value=f"a label of {found.pass_at:g} or more"),
            Fact(label="guardrails", value="as in the loop" if plan.guardrails else "none"),
            Fact(label="spent", value=spent_words(found.batch)),
            Fact(label="best", value="what a perfect judge would have"),
        ),
        flags=tuple(remarks(found)),
        charts=tuple(_diagram(judge) for judge in judges),
        tables=(
            *(_table("Scores beside labels, 95 % intervals", ESTIMATES, g) for g in groups),
            *(_table("Verdicts, repeats and cost", COUNTS, group) for group in groups),
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
    """Draw what labels say beside what scores promise: a generous judge has its labels below."""
    filled = [one if one.count else None for one in judge.reliability]
    return Chart(
        title=f"Reliability of {judge.judge}",
        axis="scores; where labels lie below scores the judge is too generous",
        curves=(
            Curve(
                name="mean label",
                points=tuple(one.label if one else None for one in filled),
                labels=tuple(_bin_words(one) if one else "" for one in filled),
            ),
            Curve(name="mean score", points=tuple(one.score if one else None for one in filled)),
        ),
        places=tuple(f"{one.low:.1f}" for one in judge.reliability),
        gap="no draft",
    )


def _bin_words(one: Any) -> str:
    said = f"{one.count} with scores of {one.low:g} to {one.high:g}"
    return f"{said}: mean score {one.score:.2f}, mean label {one.label:.2f}"


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
    """Write a number to two places with its 95 % interval; one that is undefined is a dash."""
    if found.value is None:
        return NONE
    # -0.004 is no loss at two places, and must not look like one.
    value, *ends = (
        f"{round(number, 2) + 0.0:{'+' if signed else ''}.2f}"
        for number in (found.value, found.low, found.high)
        if number is not None
    )
    return f"{value} ({' to '.join(ends)})" if ends else value


def share(value: float | None) -> str:
    """Write a share in percent; None is a dash."""
    return NONE if value is None else f"{value:.0%}"


def _accuracy(found: Verdicts | None) -> str:
    return share(found.accuracy if found else None)


def _deviation(judge: Calibration) -> str:
    deviation = judge.repeatability.deviation
    return NONE if deviation is None else f"{deviation:.3f}"


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
    ("accuracy at it", "100%", lambda judge: _accuracy(judge.recommended)),
    ("accuracy at 0.70", "100%", lambda judge: _accuracy(judge.at_source)),
    ("evaluations", "", lambda judge: f"{judge.evaluations:,}"),
    ("of them failed", "0", lambda judge: f"{judge.failed_evaluations:,}"),
    ("tokens", "", lambda one: "unknown" if one.tokens is None else f"{one.tokens:,}"),
    ("cost", "", lambda judge: usd(judge.cost_usd)),
)
