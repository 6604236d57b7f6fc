"""`calibrate`: compare a judge's scores with labels that people gave."""

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from pydantic import ValidationError

from commands import options
from commands.inputs import checked, place_for, write_file
from commands.measuring.plans import (
    BOUNDS,
    EVALUATION_OUT,
    Calls,
    Fields,
    Forecast,
    LineError,
    judge_tokens,
    read_lines,
    text_of,
)
from commands.session import Exit, fail, with_client
from reflection.batch.request import BatchRequest
from reflection.critique.calibration import PASS_AT, Example, Scored
from reflection.critique.evaluation import Evaluation
from reflection.critique.request import ReflectOnResultRequest
from reflection.run import explain

if TYPE_CHECKING:
    from temporalio.client import Client

    from commands.measuring.batches import Order, Read

HELP = """FILE has one JSON object a line: {"query": "...", "draft": "...", "label": 0.8}. The
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

FORM = '{"query": "...", "draft": "...", "label": 0.8}'
WORDS = {"pass": 1.0, "fail": 0.0}
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
    judges = judge or []
    if not judges:
        fail("name a judge with --judge MODEL, such as --judge openai/gpt-5-mini.", Exit.USAGE)
    if len(set(judges)) < len(judges):
        fail("--judge: the same model is given twice.", Exit.USAGE)
    known = {"query": "-", "complexity": 1.0, "max_revisions": 0, "criteria": fields["criteria"]}
    judging = checked(ReflectOnResultRequest, known | ({"guardrails": []} if no_guardrails else {}))
    # A single criterion can't be reversed.
    turned = not no_position and len(judging.judged_by) > 1
    plan = JudgePlan(read_lines(file, read_example, FORM), judges, judging, repeats, turned)
    request = checked(
        BatchRequest,
        {
            "items": [{"query": one.query, "draft": one.draft} for one in plan.examples],
            "variants": list(plan.variants()),
            **{name: fields[name] for name in BOUNDS},
        },
    )
    from commands.measuring.batches import order

    page = None if html is None else place_for("--html", html)
    forecast = plan.forecast()
    if estimate:
        forecast.tell(as_json=as_json)
    agreed = partial(forecast.agreed, yes=yes)
    wanted = order("calibrate", file, request, agreed, workflow_id, detach, as_json)
    with_client(lambda client: _calibrate(client, wanted, plan, pass_at, page))


def read_example(fields: Fields) -> Example:
    """Read a labelled draft. Raises LineError."""
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


class JudgePlan(NamedTuple):
    """Each judge evaluates every example `repeats` times, and once more if `turned`.

    `judging` is the common request, without query, draft and judge. `turned` adds an evaluation
    with the criteria in reverse order.
    """

    examples: Sequence[Example]
    judges: Sequence[str]
    judging: ReflectOnResultRequest
    repeats: int
    turned: bool

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
            Calls("evaluating", judge, calls, times * size, calls * EVALUATION_OUT)
            for judge in self.judges
        ]
        return Forecast(parts, f"and {EVALUATION_OUT} out for an evaluation")


class Evaluated(NamedTuple):
    """One evaluation that was made, with its details besides the score."""

    scored: Scored
    workflow_id: str
    judged: float | None
    guardrails: tuple[str, ...]
    error: str | None


def evaluated(plan: JudgePlan, reads: "Sequence[Read]") -> list[Evaluated]:
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
            scores=evaluation.criteria,
            tokens=run.tokens,
            cost_usd=run.cost_usd,
        )
        fired = tuple(one.guardrail for one in evaluation.guardrails)
        error = evaluation.error or run.error
        found.append(Evaluated(scored, run.workflow_id, evaluation.judged, fired, error))
    return found


async def _calibrate(
    client: "Client", wanted: "Order", plan: JudgePlan, pass_at: float, page: Path | None
) -> Exit:
    from rich.console import Console

    from commands.measuring.batches import made
    from commands.measuring.judges import findings, sheet
    from commands.page import page_html
    from commands.terminal import print_sheet

    batch, reads = await made(client, wanted)
    found = findings(wanted.identity, plan, pass_at, evaluated(plan, reads), batch)
    if wanted.as_json:
        sys.stdout.write(json.dumps(found.document()) + "\n")
    else:
        print_sheet(Console(), sheet(found))
    if page is not None:
        write_file(page, page_html(sheet(found)))
    return Exit.FAILED if found.all_failed else Exit.DONE
