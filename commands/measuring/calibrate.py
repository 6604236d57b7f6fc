"""`calibrate`: hold a judge's scores against labels that people gave."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands import options
from commands.options import PRESET_NAMES
from commands.session import Exit, fail, with_client

if TYPE_CHECKING:
    from temporalio.client import Client

    from commands.measuring.batches import Order
    from commands.measuring.judges import Plan

HELP = """Find out how good a judge is, on drafts that people have labelled.

FILE has one JSON object a line: {"query": "...", "draft": "...", "label": 0.8}. The label is 0
to 1, true or false, "pass" or "fail". "writer" may name the model that wrote the draft.

Each judge evaluates each draft as the loop of `reflect` does, --repeats times, and once with the
criteria listed in reverse. What is printed: agreement with the labels, calibration, biases,
repeatability, cost, and the score from which on a draft should pass. First comes an estimate of
the spend, on standard error.

The same command with the same --id goes on where a cancelled one was, and shows one that has
ended: nothing is paid twice. It asks before it starts in a terminal alone; --estimate only tells.

Examples:

    starter.py calibrate labelled.jsonl --judge openai/gpt-5-mini --html page.html

    starter.py calibrate labelled.jsonl --judge openai/gpt-5-mini --estimate

    starter.py calibrate examples/labelled-drafts.jsonl \\
    --judge embedded/smollm2-135m --repeats 1 --no-position

The last one needs `starter.py dev` and no key, and takes some minutes; its toy model's scores are
noise.

Exit codes: 0 done, 1 failed or no evaluation worked, 2 wrong usage or a file that can't be read,
3 no server or worker, 5 cancelled or not agreed to, 130 detached (the batch goes on).
"""

_judging = partial(typer.Option, rich_help_panel="Judges and criteria")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("calibrate", help=HELP)(calibrate)


def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled drafts, JSON lines.")],
    judge: Annotated[
        list[str] | None,
        _judging(help="Any LiteLLM name; repeat it.", metavar="MODEL", envvar="MULL_JUDGE_MODEL"),
    ] = None,
    criteria: Annotated[
        str, _judging(help=f"One of: {', '.join(PRESET_NAMES)}.", metavar="PRESET")
    ] = "general",
    no_guardrails: Annotated[
        bool, _judging("--no-guardrails", help="The judge's score as it is.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, max=20, metavar="K", help="Evaluations of each draft.")
    ] = 2,
    no_position: Annotated[
        bool, typer.Option("--no-position", help="None with the criteria in reverse.")
    ] = False,
    pass_at: Annotated[
        float, typer.Option(min=0, max=1, help="A label of at least this is a pass.")
    ] = 0.5,
    max_concurrency: Annotated[
        int, options.bounds(min=1, max=32, help="Evaluations at once, at most.")
    ] = 4,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with reliability diagrams.")
    ] = None,
    estimate: options.Estimate = False,
    yes: options.Yes = False,
    workflow_id: options.BatchId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> None:
    """Calibrate judges on a file, and print what they are worth."""
    judges = judge or []
    if not judges:
        fail("name who judges: --judge MODEL, such as --judge openai/gpt-5-mini.", Exit.USAGE)
    if len(set(judges)) < len(judges):
        fail("--judge: two of them are the same model.", Exit.USAGE)
    if html is not None and not html.resolve().parent.is_dir():
        fail(f"there is no folder {html.parent} for --html.", Exit.USAGE)
    from commands.measuring import batches
    from commands.measuring.judges import Plan, preset, read_examples

    examples = read_examples(file)
    plan = Plan(examples, judges, preset(criteria), repeats, not no_position, not no_guardrails)
    bounds = {
        "max_concurrency": max_concurrency,
        "budget_usd": budget_usd,
        "budget_tokens": budget_tokens,
    }
    wanted = batches.Options(estimate, yes, workflow_id, detach, as_json)
    request = plan.request(bounds)
    order = batches.order("calibrate", file, request, plan.forecast(), wanted)
    with_client(lambda client: _calibrate(client, order, plan, pass_at, html))


async def _calibrate(
    client: "Client", order: "Order", plan: "Plan", pass_at: float, html: Path | None
) -> Exit:
    from rich.console import Console

    from commands.measuring.batches import made
    from commands.measuring.judges import evaluated, find, sheet
    from commands.page import page_html
    from commands.terminal import print_sheet

    batch, reads = await made(client, order)
    found = find(order.identity, plan, pass_at, evaluated(plan, reads), batch)
    if order.as_json:
        sys.stdout.write(json.dumps(found.document()) + "\n")
    else:
        print_sheet(Console(), sheet(found))
    if html is not None:
        try:
            html.write_text(page_html(sheet(found)), encoding="utf-8")
        except OSError as error:
            fail(f"{html} can't be written: {error.strerror}.", Exit.USAGE)
        sys.stderr.write(f"wrote {html}\n")
    return Exit.FAILED if found.all_failed else Exit.DONE
