"""`calibrate`: compare a judge's scores with labels that people gave."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from commands import plans
from commands.command import checked, fail, flag
from commands.help import COMMON
from commands.options import settled, takes_fields
from commands.plans import Findings, Read, facts_of, found, unmade
from mull.batch.request import BatchRequest, Item
from mull.batch.result import BatchResult
from mull.batch.sheet import cost_words
from mull.critique import calibration
from mull.critique.calibration import PASS_AT, Calibration, Example, Scored
from mull.critique.estimates import RESAMPLES, Bin, Estimate
from mull.critique.evaluation import Evaluation
from mull.critique.request import ReflectOnResultRequest
from mull.request import Record
from mull.sheet import EMBEDDED, Chart, Curve, Sheet, Table, Verdict, table
from mull.text import tally_words, terminal_safe, usd

FORM = '{"query": "...", "draft": "...", "label": 0.8}'
REVERSED = "reversed"
AXIS = "scores; labels below scores: the judge is too generous"
FEW = 30
# More judges than this do not fit side by side in a terminal.
JUDGES_A_TABLE = 2
JUDGE_COLUMNS = 24
NONE = "-"

_judging = partial(typer.Option, rich_help_panel="Judges and criteria")


@takes_fields(ReflectOnResultRequest, "criteria")
@takes_fields(BatchRequest)
def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled drafts, JSON lines.")],
    judge: Annotated[
        list[str] | None,
        _judging(
            help="Any LiteLLM name; can be repeated.", metavar="MODEL", envvar="MULL_JUDGE_MODEL"
        ),
        COMMON,
    ] = None,
    no_guardrails: Annotated[
        bool, _judging("--no-guardrails", metavar="", help="Use the judge's score unchanged.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, max=20, metavar="K", help="Evaluations of each draft."), COMMON
    ] = 2,
    no_position: Annotated[
        bool, flag("--no-position", help="Skip the evaluation with reversed criteria.")
    ] = False,
    pass_at: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="A label of at least this is a pass."),
        COMMON,
    ] = PASS_AT,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with reliability diagrams."),
        COMMON,
    ] = None,
    *,
    how: plans.How,
    **fields: Any,
) -> None:
    r"""Measure how good a judge is, on drafts that people labelled.

    FILE has one JSON object a line: {"query": "...", "draft": "...", "label": 0.8}. The label
    is 0 to 1, true or false, "pass" or "fail". "writer" may name the model that wrote the
    draft.

    For example:

        mull calibrate labelled.jsonl --judge openai/gpt-5-mini --html page.html
        mull calibrate labelled.jsonl --judge openai/gpt-5-mini --estimate
        mull calibrate examples/labelled-drafts.jsonl \
            --judge embedded/smollm2-135m --repeats 1 --no-position

    Each judge evaluates each draft as the loop of `reflect` does, --repeats times, and once
    with the criteria listed in reverse. What is printed: agreement with the labels,
    calibration, biases, repeatability, cost, and the score from which on a draft should pass.
    First comes an estimate of the spend, on standard error.

    Repeat the command with the same --id to continue a cancelled batch, or to show one that has
    ended: nothing is paid twice. It asks before it starts only in a terminal; --estimate starts
    nothing.

    The last of the examples needs `mull dev` and no key, and takes some minutes; its toy
    model's scores are noise.

    Exit codes: 0 done, 1 failed or no evaluation worked, 2 wrong usage or a file that can't be
    read, 3 no server or worker, 5 cancelled or not agreed to, 130 detached (the batch goes on).
    """
    plans.require_scipy("calibrate")
    examples = plans.read_lines(file, read_example, FORM)
    given = {"judges": judge, "criteria": fields["criteria"]}
    given = settled(ReflectOnResultRequest, given, how.profile, alone=True)
    judges = given["judges"] or []
    if not judges:
        fail("name a judge with --judge MODEL, such as --judge openai/gpt-5-mini.")
    if len(set(judges)) < len(judges):
        fail("--judge: the same model is given twice.")
    known = {"query": "-", "complexity": 1.0, "max_revisions": 0, "criteria": given["criteria"]}
    known |= {"guardrails": []} if no_guardrails else {}
    judging, *_ = (checked(ReflectOnResultRequest, known | {"judges": [name]}) for name in judges)
    # A single criterion can't be reversed.
    turned = not no_position and len(judging.judged_by) > 1
    plan = JudgePlan(examples, judges, judging, repeats, turned, pass_at)
    items: list[Item] = [{"query": one.query, "draft": one.draft} for one in examples]
    batch = plans.batch_of(items, [*plan.variants()], fields)
    from commands.measuring.findings import measure

    measure(f"calibrate {file.name}", batch, plan.forecast(), how, partial(findings, plan), html)


def read_example(fields: plans.Fields) -> Example:
    """Read a labelled draft. Raises ValueError."""
    example = Example.model_validate(fields)
    ReflectOnResultRequest(query=example.query, draft=example.draft, max_revisions=0)
    return example


class JudgePlan(NamedTuple):
    """Each judge evaluates every example `repeats` times, and once more if `turned`.

    `judging` is the request of each, but for query, draft and judge. `turned` adds an evaluation
    with the criteria in reverse order. Labels of at least `pass_at` are passes.
    """

    examples: Sequence[Example]
    judges: Sequence[str]
    judging: ReflectOnResultRequest
    repeats: int
    turned: bool
    pass_at: float = PASS_AT

    def variants(self) -> Iterator[dict[str, Any]]:
        """Yield each judge's settings as a variant of the batch."""
        alike = self.judging.model_dump(mode="json", exclude_unset=True, exclude={"query"})
        back = [one.model_dump(mode="json") for one in reversed(self.judging.judged_by)]
        kinds = [("", alike, self.repeats)]
        if self.turned:
            kinds.append((f"-{REVERSED}", alike | {"criteria": back}, 1))
        for number, judge in enumerate(self.judges, start=1):
            for ending, request, repeats in kinds:
                yield {
                    "name": f"judge-{number}{ending}",
                    "workflow": "ReflectOnResultWorkflow",
                    "request": request | {"judges": [judge]},
                    "takes": {"query": "query", "draft": "draft"},
                    "repeats": repeats,
                }

    def forecast(self) -> plans.Forecast:
        """Count the calls of each judge and their tokens, from the real prompts."""
        times = self.repeats + self.turned
        size = sum(plans.judge_tokens(self.judging, one.query, one.draft) for one in self.examples)
        calls = times * len(self.examples)
        parts = [
            plans.PlannedCalls(
                "evaluating", judge, calls, times * size, calls * plans.EVALUATION_OUT
            )
            for judge in self.judges
        ]
        return plans.Forecast(parts, f"and {plans.EVALUATION_OUT} out for an evaluation")


def findings(plan: JudgePlan, identity: str, batch: BatchResult, reads: Sequence[Read]) -> Findings:
    """Calibrate each judge; the document has the data to compute the numbers again."""
    scored = evaluations(plan, reads)
    calibrated = calibration.calibrate(plan.examples, scored, plan.pass_at)
    judges = sorted(calibrated, key=lambda judge: plan.judges.index(judge.judge))
    said = (*_on_judges(plan, judges), *_on_runs(plan, scored, batch))
    failed = all(one.score is None for one in scored)
    document = {
        "examples": len(plan.examples),
        "criteria": plan.judging.model_dump(mode="json")["criteria"],
        "pass_at": plan.pass_at,
        "repeats": plan.repeats,
        "reversed": plan.turned,
        "guardrails": bool(plan.judging.guardrails),
        "resamples": RESAMPLES,
        "judges": [judge.model_dump(mode="json") for judge in judges],
        "evaluations": [
            {**one.model_dump(mode="json"), "label": plan.examples[one.example].label}
            for one in scored
        ],
    }
    return found(identity, batch, document, said, sheet_of, failed=failed)


class Document(Record):
    """What the JSON of a calibration has for its sheet; earlier ones say less."""

    id: str
    examples: int
    criteria: Any
    pass_at: float
    repeats: int | None = None
    reversed: bool = False
    guardrails: bool | None = None
    judges: tuple[Calibration, ...]
    batch: BatchResult
    warnings: tuple[str, ...]


def sheet_of(document: Any) -> Sheet:
    """Draw the JSON of a calibration. Raises ValueError."""
    known = Document.model_validate(document)
    judging = ReflectOnResultRequest(query="-", criteria=known.criteria)
    size, judges = tally_words(known.examples, "labelled draft"), known.judges
    turned = ", and 1 with the criteria reversed" if known.reversed else ""
    guardrails = {True: "as in the loop", False: "none", None: ""}[known.guardrails]
    groups = [
        judges[start : start + JUDGES_A_TABLE] for start in range(0, len(judges), JUDGES_A_TABLE)
    ]
    names = ", ".join(one.name for one in judging.judged_by)
    facts = {
        "batch": known.id,
        "criteria": f"{judging.criteria_name}: {names}",
        "evaluations": f"{known.repeats} of each draft{turned}" if known.repeats else "",
        "pass": f"a label of {known.pass_at:g} or more",
        "guardrails": guardrails,
        "spent": cost_words(known.batch),
        "best": "the value of a perfect judge",
    }
    failed = all(judge.evaluations == judge.failed_evaluations for judge in judges)
    return Sheet(
        subject="How good is the judge?",
        verdict=Verdict(
            words=f"{tally_words(len(judges), 'judge')}, {size}", tone="bad" if failed else "plain"
        ),
        facts=facts_of({name: words for name, words in facts.items() if words}),
        flags=known.warnings,
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


def evaluations(plan: JudgePlan, reads: Sequence[Read]) -> list[Scored]:
    """List the evaluations that were made; others were not started, or cancelled."""
    scored = []
    for run, result, _ in reads:
        if run.status not in {"completed", "failed"}:
            continue
        drafts = result.drafts if result else ()
        evaluation = (drafts[0].evaluation if drafts else None) or Evaluation()
        one = Scored(
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
        scored.append(one)
    return scored


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
    yield from unmade(batch, "evaluation")
    for judge in plan.judges:
        listed = [one for one in scored if one.judge == judge]
        scores = {one.score for one in listed if one.score is not None and not one.reversed}
        if len(scores) == 1 and len({one.example for one in listed}) > 1:
            yield f"{judge} scores every draft {scores.pop():.2f}, which says nothing of a draft."
    failed = [one for one in scored if one.score is None]
    reasons = Counter((one.judge, one.error or "no reason is known") for one in failed)
    for (judge, error), count in reasons.most_common(3):
        yield f"{tally_words(count, 'evaluation')} by {judge} failed: {terminal_safe(error, 200)}"
    yield from batch.warnings


def _table(
    title: str, rows: Sequence[tuple[str, str, Any]], judges: Sequence[Calibration]
) -> Table:
    names = [f"{terminal_safe(judge.judge, JUDGE_COLUMNS)}|number" for judge in judges]
    cells = ((name, best, *(words(judge) for judge in judges)) for name, best, words in rows)
    return table(title, ("", "best|number", *names), cells)


def diagram(name: str, axis: str, bins: Sequence[Bin], label: str, score: str) -> Chart:
    """Draw each bin's mean label beside its mean score."""
    return Chart(
        title=f"Reliability of {name}",
        axis=axis,
        curves=(
            Curve(name=label, points=tuple(one.label for one in bins)),
            Curve(name=score, points=tuple(one.score for one in bins)),
        ),
        places=tuple(f"{one.score:.2f}" for one in bins),
    )


def _bins(judge: Calibration) -> Table:
    rows = (
        (f"{one.low:.2f} to {one.high:.2f}", one.count, one.score, one.label)
        for one in judge.reliability
    )
    names = "scores, drafts|number, mean score|number, mean label|number"
    return table(f"Reliability of {judge.judge}", names, rows, folded=True)


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


def _known(value: object, form: str = "{:.0%}") -> str:
    return NONE if value is None else form.format(value).replace("%", " %")


# The rows of both tables: a name, the value of a perfect judge, and this judge's value.
ESTIMATES = (
    ("examples scored", "", lambda judge: f"{judge.evaluated:,} of {judge.examples:,}"),
    ("Spearman's rank correlation", "1", lambda judge: estimate_words(judge.spearman)),
    ("Kendall's tau-b", "1", lambda judge: estimate_words(judge.kendall)),
    ("AUC, pass against fail", "1", lambda judge: estimate_words(judge.auc)),
    ("expected calibration error", "0", lambda judge: estimate_words(judge.calibration_error)),
    ("what noise alone makes", "", lambda one: _known(one.calibration_floor, "{:.2f}")),
    ("self-preference gap", "0", lambda one: estimate_words(one.self_preference, signed=True)),
    ("length bias", "0", lambda judge: estimate_words(judge.length_bias, signed=True)),
    ("position bias", "0", lambda judge: estimate_words(judge.position_bias, signed=True)),
)
COUNTS = (
    ("deviation when repeated", "0", lambda one: _known(one.repeatability.deviation, "{:.3f}")),
    ("same verdict when repeated", "100 %", lambda one: _known(one.repeatability.same_verdict)),
    ("recommended threshold", "", lambda one: _known(one.recommended, "{0.threshold:.2f}")),
    ("Youden's J at it, held out", "1", lambda one: _known(one.recommended, "{0.youden:.2f}")),
    ("accuracy at it", "100 %", lambda one: _known(one.recommended, "{0.accuracy:.0%}")),
    (
        "false passes, fails at it",
        "0, 0",
        lambda one: _known(one.recommended, "{0.false_passes}, {0.false_fails}"),
    ),
    ("accuracy at 0.70", "100 %", lambda one: _known(one.at_source, "{0.accuracy:.0%}")),
    ("evaluations", "", lambda judge: f"{judge.evaluations:,}"),
    ("of them failed", "0", lambda judge: f"{judge.failed_evaluations:,}"),
    ("tokens", "", lambda one: "unknown" if one.tokens is None else f"{one.tokens:,}"),
    ("cost", "", lambda judge: usd(judge.cost_usd)),
)
