"""Measure what one revision costs in tokens and seconds, compared with a single call.

    .venv/bin/python -m bench.reflection [--queries 5]

Both ask the embedded toy model on a development server, for drafts of two sentences. Its judgements
are noise, so the threshold is 1: every draft is revised once. Prints the tokens by part, then the
total of Mull's own prompts for a draft of the chapter's size (4 characters a token, three points of
feedback, 300 tokens of judgement), and the chapter's own numbers.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from typing import Any

from temporalio.client import Client

import adapters
import telemetry
from activities.language_model.embedded import EmbeddedModel
from bench import server
from reflection.critique.criteria import PRESETS
from reflection.critique.evaluation import Feedback
from reflection.critique.prompts import build_judge_prompt, build_revision_prompt
from reflection.critique.worth import DRAFT_INPUT, DRAFT_OUTPUT, REFLECT, SINGLE
from worker import QUEUES, build, running

QUERIES = [
    "Explain in two sentences how a tide table is made",
    "Explain in two sentences why the sky is blue",
    "Describe in two sentences how bread rises",
    "Compare tea and coffee in two sentences",
    "Explain in two sentences what a queue is for",
]
JUDGEMENT = 300
FIELDS: dict[str, Any] = {"max_output_tokens": 150, "min_complexity": 0, "guardrails": []}


async def run(client: Client, query: str, **more: Any) -> tuple[dict[str, Any], float]:
    """Run once, and return the result with the seconds it took."""
    started = time.perf_counter()
    result = await client.execute_workflow(
        "ReflectOnResultWorkflow",
        {"query": query, "seed": 7, **FIELDS, **more},
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


async def measure(client: Client, queries: list[str]) -> None:
    """Run each query both ways, one after the other, and print the cost."""
    singles, revised, slower = [], [], []
    for query in queries:
        single, short = await run(client, query, reflect=False)
        whole, long = await run(client, query, score_threshold=1)
        if whole["revisions"] != 1:
            print(f"left out ({whole['stop_reason']}): {query}")
            continue
        singles.append(tokens(single["usage"]))
        revised.append({name: tokens(part) for name, part in whole["usage"]["parts"].items()})
        slower.append(long / short)
    spent = {name: sum(parts[name] for parts in revised) for name in revised[0]}
    change = sum(spent.values()) / sum(singles) - 1
    print(f"{len(singles)} queries, single: {sum(singles):,} tokens")
    print(f"one revision: {sum(spent.values()):,} tokens, {change:+.0%}; by part {spent}")
    print(f"seconds: {statistics.median(slower):.1f} times those of a single call")
    sized = at_the_chapters_size()
    more = sum(sized.values()) / sized["generating"] - 1
    print(f"at the chapter's size: {sum(sized.values()):,} tokens, {more:+.0%}; by part {sized}")
    print(f"the chapter: {SINGLE:,} to {REFLECT:,} tokens, {REFLECT / SINGLE - 1:+.1%}")


async def main(queries: list[str]) -> None:
    """Serve every queue with the toy model, and measure."""
    telemetry.set_up(None)
    with adapters.adapters(["llm"], EmbeddedModel.name) as (model, *_):
        async with server() as client, running(build(client, QUEUES, model)):
            await run(client, queries[0], reflect=False)
            await measure(client, queries)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=len(QUERIES))
    asyncio.run(main(QUERIES[: parser.parse_args().queries]))
