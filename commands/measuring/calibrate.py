"""`calibrate`: compare a judge's scores with labels that people gave."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from commands import options
from commands.measuring.plans import (
    BOUNDS,
    EVALUATION_OUT,
    Fields,
    Forecast,
    PlannedCalls,
    judge_tokens,
    read_lines,
)
from commands.options import checked
from commands.session import Exit, fail
from reflection.batch.request import BatchRequest
from reflection.critique.calibration import PASS_AT, Example
from reflection.critique.request import ReflectOnResultRequest

HELP = {
    "calibrate": """
FILE has one JSON object a line: {"query": "...", "draft": "...", "label": 0.8}. The
label is 0 to 1, true or false, "pass" or "fail". "writer" may name the model that wrote the draft.

Each judge evaluates each draft as the loop of `reflect` does, --repeats times, and once with the
criteria listed in reverse. What is printed: agreement with the labels, calibration, biases,
repeatability, cost, and the score from which on a draft should pass. First comes an estimate of
the spend, on standard error.

Repeat the command with the same --id to continue a cancelled batch, or to show one that has ended:
nothing is paid twice. It asks before it starts only in a terminal; --estimate starts nothing.

Examples:

    mull calibrate labelled.jsonl --judge openai/gpt-5-mini --html page.html

    mull calibrate labelled.jsonl --judge openai/gpt-5-mini --estimate

    mull calibrate examples/labelled-drafts.jsonl \\
    --judge embedded/smollm2-135m --repeats 1 --no-position

The last one needs `mull dev` and no key, and takes some minutes; its toy model's scores are noise.

Exit codes: 0 done, 1 failed or no evaluation worked, 2 wrong usage or a file that can't be read,
3 no server or worker, 5 cancelled or not agreed to, 130 detached (the batch goes on).
"""
}

FORM = '{"query": "...", "draft": "...", "label": 0.8}'
REVERSED = "reversed"
JUDGES = "Judges and criteria"

_judging = partial(typer.Option, rich_help_panel=JUDGES)


@options.takes_fields(ReflectOnResultRequest, {JUDGES: ("criteria",)})
@options.takes_fields(BatchRequest, {"Bounds": BOUNDS})
def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled drafts, JSON lines.")],
    judge: Annotated[
        list[str] | None,
        _judging(
            help="Any LiteLLM name; can be repeated.", metavar="MODEL", envvar="MULL_JUDGE_MODEL"
        ),
    ] = None,
    no_guardrails: Annotated[
        bool, _judging("--no-guardrails", help="Use the judge's score unchanged.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, max=20, metavar="K", help="Evaluations of each draft.")
    ] = 2,
    no_position: Annotated[
        bool, typer.Option("--no-position", help="Skip the evaluation with reversed criteria.")
    ] = False,
    pass_at: Annotated[
        float, typer.Option(min=0, max=1, help="A label of at least this is a pass.")
    ] = PASS_AT,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with reliability diagrams.")
    ] = None,
    estimate: options.Estimate = False,
    yes: options.Yes = False,
    workflow_id: options.BatchId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
    **fields: Any,
) -> None:
    """Calibrate judges on a file, and print how good they are."""
    examples = read_lines(file, read_example, FORM)
    judges = judge or []
    if not judges:
        fail("name a judge with --judge MODEL, such as --judge openai/gpt-5-mini.", Exit.USAGE)
    if len(set(judges)) < len(judges):
        fail("--judge: the same model is given twice.", Exit.USAGE)
    known = {"query": "-", "complexity": 1.0, "max_revisions": 0, "criteria": fields["criteria"]}
    judging = checked(ReflectOnResultRequest, known | ({"guardrails": []} if no_guardrails else {}))
    # A single criterion can't be reversed.
    turned = not no_position and len(judging.judged_by) > 1
    plan = JudgePlan(examples, judges, judging, repeats, turned, pass_at)
    request = checked(
        BatchRequest,
        {
            "items": [{"query": one.query, "draft": one.draft} for one in examples],
            "variants": list(plan.variants()),
            **{name: fields[name] for name in BOUNDS},
        },
    )
    from commands.measuring.batches import Order, measure
    from commands.measuring.judges import findings

    measure(
        Order(
            "calibrate", file, request, plan.forecast(), workflow_id, estimate, yes, detach, as_json
        ),
        partial(findings, plan),
        html,
    )


def read_example(fields: Fields) -> Example:
    """Read a labelled draft. Raises ValueError."""
    example = Example.model_validate(fields)
    ReflectOnResultRequest(query=example.query, draft=example.draft, max_revisions=0)
    return example


class JudgePlan(NamedTuple):
    """Each judge evaluates every example `repeats` times, and once more if `turned`.

    `judging` is the common request, without query, draft and judge. `turned` adds an evaluation
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

    def forecast(self) -> Forecast:
        """Count the calls of each judge and their tokens, from the real prompts."""
        times = self.repeats + self.turned
        size = sum(judge_tokens(self.judging, one.query, one.draft) for one in self.examples)
        calls = times * len(self.examples)
        parts = [
            PlannedCalls("evaluating", judge, calls, times * size, calls * EVALUATION_OUT)
            for judge in self.judges
        ]
        return Forecast(parts, f"and {EVALUATION_OUT} out for an evaluation")
