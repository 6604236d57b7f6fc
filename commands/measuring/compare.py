"""`compare`: the same questions by several methods, to see whether reflection is worth its cost."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands import options
from commands.options import PRESET_NAMES
from commands.session import Exit, fail, with_client

if TYPE_CHECKING:
    from temporalio.client import Client

    from commands.measuring.batches import Order
    from commands.measuring.methods import Plan

HELP = """Compare one draft, reflection and self-consistency on the same questions.

FILE has one JSON object a line: {"question": "...", "gold": "42"}. Where gold is known, answers
are right or wrong: drafts are asked to end with a line "Answer: ". Without any gold the judge
scores each method's answer, in a second batch whose cost is shown apart.

`single` is one draft, `reflect` judges and revises it, `self_consistency` samples and votes. All
start from the same seed, so that a difference is the method's. A run that fails counts as wrong.

The same command with the same --id goes on where a cancelled one was, and shows one that has
ended: nothing is paid twice. It asks before it starts in a terminal alone; --estimate only tells.

Examples:

    starter.py compare questions.jsonl --answers number --model gpt-5-mini

    starter.py compare questions.jsonl --methods single,reflect --estimate

    starter.py compare examples/questions.jsonl --answers number

The last one needs `starter.py dev` and no key, and takes many minutes; its toy model is mostly
wrong.

Exit codes: 0 done, 1 failed or no run worked, 2 wrong usage or a file that can't be read, 3 no
server or worker, 5 cancelled or not agreed to, 130 detached (the batch goes on).
"""

METHOD_NAMES = "single,reflect,self_consistency"

_reflecting = partial(typer.Option, rich_help_panel="Reflection and its judge")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("compare", help=HELP)(compare)


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions, JSON lines.")],
    methods: Annotated[str, typer.Option(help="Of these, with commas.")] = METHOD_NAMES,
    model: Annotated[
        str | None,
        typer.Option(help="Any LiteLLM name; else the worker's own.", envvar="MULL_MODEL"),
    ] = None,
    answers: Annotated[
        str, typer.Option(metavar="KIND", help="How answers compare: exact, text, number, choice.")
    ] = "exact",
    seed: Annotated[
        int, typer.Option(min=0, help="Of every run, as far as a model takes one.")
    ] = 0,
    judge: Annotated[
        list[str] | None,
        _reflecting(
            help="Who judges; repeat it for a panel. The worker's own by default.",
            metavar="MODEL",
            envvar="MULL_JUDGE_MODEL",
        ),
    ] = None,
    criteria: Annotated[
        str, _reflecting(help=f"One of: {', '.join(PRESET_NAMES)}.", metavar="PRESET")
    ] = "general",
    max_revisions: Annotated[int, _reflecting(min=0, max=10, help="Of a draft, at most.")] = 1,
    score_threshold: Annotated[
        float | None, _reflecting(min=0, max=1, help="That needs no revision; 0.7 by default.")
    ] = None,
    no_guardrails: Annotated[
        bool, _reflecting("--no-guardrails", help="The judge's score as it is.")
    ] = False,
    max_responses: Annotated[
        int | None, typer.Option(min=1, help="Sampled answers at most; 10 by default.")
    ] = None,
    max_concurrency: Annotated[
        int, options.bounds(min=1, max=32, help="Runs at once, at most.")
    ] = 4,
    budget_usd: options.BudgetUsd = None,
    budget_tokens: options.BudgetTokens = None,
    estimate: options.Estimate = False,
    yes: options.Yes = False,
    workflow_id: options.BatchId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> None:
    """Run every question by every method, and print what each is worth."""
    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names or not set(names) <= set(METHOD_NAMES.split(",")):
        fail(f"--methods: one or more of {METHOD_NAMES}, with commas.", Exit.USAGE)
    from commands.measuring import batches
    from commands.measuring.judges import preset
    from commands.measuring.methods import Plan, read_questions
    from commands.measuring.replay import readable_kind

    kind = readable_kind(answers)
    plan = Plan(
        questions=read_questions(file, kind),
        methods=names,
        model=model or None,
        judges=judge or [],
        answers=kind,
        criteria=preset(criteria),
        max_revisions=max_revisions,
        max_responses=max_responses,
        score_threshold=score_threshold,
        guardrails=not no_guardrails,
        seed=seed,
    )
    bounds = {
        "max_concurrency": max_concurrency,
        "budget_usd": budget_usd,
        "budget_tokens": budget_tokens,
    }
    wanted = batches.Options(estimate, yes, workflow_id, detach, as_json)
    order = batches.order("compare", file, plan.request(bounds), plan.forecast(), wanted)
    with_client(lambda client: _compare(client, order, plan, bounds))


async def _compare(client: "Client", order: "Order", plan: "Plan", bounds: dict[str, Any]) -> Exit:
    from rich.console import Console

    from commands.measuring.batches import made
    from commands.measuring.comparison import find, sheet
    from commands.measuring.methods import answered, score
    from commands.terminal import print_sheet

    batch, reads = await made(client, order)
    answers = answered(plan, reads)
    scores, scoring = await score(client, order, plan, answers, bounds, batch)
    found = find(order.identity, plan, answers, scores, batch, scoring)
    if order.as_json:
        sys.stdout.write(json.dumps(found.document()) + "\n")
    else:
        print_sheet(Console(), sheet(found))
    return Exit.FAILED if found.all_failed else Exit.DONE
