"""Measure the tokens and seconds of one revision, compared with a single call.

    .venv/bin/python -m bench.reflection [--rounds 10] [--busy]

Both ask the embedded toy model on a development server, for drafts of two sentences; in every other
round the single call comes first. The toy's judgements are noise, so the threshold is 1: every
draft is revised once. Prints both ratios, the tokens by part, then the total of Mull's own prompts
for a draft of the chapter's size (4 characters a token, three points of feedback, 300 tokens of
judgement), and the chapter's own numbers.
"""

import argparse
import asyncio
import time
import uuid
from typing import Any

from temporalio.client import Client

import adapters
from activities.language_model.embedded import EmbeddedModel
from adapters import QUEUES
from bench import busy, parser, quartiles, ratios, server
from mull import telemetry
from mull.critique.criteria import PRESETS
from mull.critique.evaluation import Feedback
from mull.critique.prompts import build_judge_prompt, build_revision_prompt
from mull.critique.worth import DRAFT_INPUT, DRAFT_OUTPUT, REFLECT, SINGLE
from worker import build, running

QUERIES = [
    "Explain in two sentences how a tide table is made",
    "Explain in two sentences why the sky is blue",
    "Describe in two sentences how bread rises",
    "Compare tea and coffee in two sentences",
    "Explain in two sentences what a queue is for",
]
JUDGEMENT = 300
FIELDS: dict[str, Any] = {"max_output_tokens": 150, "min_complexity": 0, "guardrails": []}


async def run(client: Client, number: int, **more: Any) -> tuple[dict[str, Any], float]:
    """Run once, and return the result with the seconds it took; queries return with other seeds."""
    turn, place = divmod(number, len(QUERIES))
    started = time.perf_counter()
    result = await client.execute_workflow(
        "ReflectOnResultWorkflow",
        {"query": QUERIES[place], "seed": 7 + turn, **FIELDS, **more},
        id=f"bench-{uuid.uuid4()}",
        task_queue="mull",
    )
    return result, time.perf_counter() - started


def at_the_chapters_size() -> dict[str, int]:
    """Add up Mull's prompts for a query of 3,000 tokens and drafts of 5,000."""
    query, draft = "word " * (DRAFT_INPUT * 4 // 5), "word " * (DRAFT_OUTPUT * 4 // 5)
    advice = [Feedback(advice="a" * 120, criterion="clarity", place="p" * 40)] * 3
    judged = len(build_judge_prompt(query, draft, PRESETS["general"], 0.7)) // 4 + JUDGEMENT
    asked = len(build_revision_prompt(query, draft, advice, (), None)) // 4
    return {
        "generating": SINGLE,
        "evaluating": 2 * judged,
        "revising": asked + DRAFT_OUTPUT,
    }


def tokens(spending: dict[str, Any]) -> int:
    """Add tokens in and out."""
    return int(spending["input_tokens"] + spending["output_tokens"])


WAYS: dict[str, dict[str, Any]] = {"revised": {"score_threshold": 1}, "single": {"reflect": False}}


async def measure(client: Client, rounds: int) -> None:
    """Run queries both ways, one after the other, and print the cost."""
    singles, revised, seconds = [], [], []
    for number in range(rounds):
        order = sorted(WAYS, reverse=number % 2 == 1)
        made = {way: await run(client, number, **WAYS[way]) for way in order}
        (single, short), (whole, long) = made["single"], made["revised"]
        if whole["revisions"] != 1:
            print(f"left out ({whole['stop_reason']}): round {number}")
            continue
        singles.append(tokens(single["usage"]))
        revised.append({name: tokens(part) for name, part in whole["usage"]["parts"].items()})
        seconds.append(long / short)
    spent = {name: sum(parts[name] for parts in revised) for name in revised[0]}
    dearer = ratios([sum(parts.values()) for parts in revised], singles)
    print(f"one revision beside a single call, n = {len(seconds)}")
    print(f"tokens: {dearer}; seconds: {quartiles(seconds)}")
    print(f"single: {sum(singles):,} tokens; revised: {sum(spent.values()):,}, by part {spent}")
    sized = at_the_chapters_size()
    more = sum(sized.values()) / sized["generating"] - 1
    print(f"at the chapter's size: {sum(sized.values()):,} tokens, {more:+.0%}; by part {sized}")
    print(f"the chapter: {SINGLE:,} to {REFLECT:,} tokens, {REFLECT / SINGLE - 1:+.1%}")


async def main(options: argparse.Namespace) -> None:
    """Serve every queue with the toy model, and measure."""
    telemetry.set_up(None)
    with adapters.adapters(["llm"], EmbeddedModel.name) as (model, *_):
        async with server() as client, running(build(client, QUEUES, model)):
            await run(client, 0, reflect=False)
            with busy(options.busy):
                await measure(client, options.rounds)


if __name__ == "__main__":
    asyncio.run(main(parser(__doc__, 10).parse_args()))
