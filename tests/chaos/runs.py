"""Runs of every workflow with a scripted model, and what must be the same of each."""

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from mull.connection import TASK_QUEUE
from mull.loops import LOOPS
from tests.activities.test_turn_calls import calling
from tests.scripted import judgement
from tests.scripted_endpoint import Body, Scripted
from tests.workflows.batches import batch_of, judging

Value = TypeVar("Value")

ANSWERS = [7, 8, 7, 9, 7, 7, 8, 7, 7, 7]
DRAFTS = {"draft one": 0.3, "draft two": 0.5, "draft three": 0.4}
CASES = {"double(1)": "2", "double(2)": "4", "double(0)": "0"}
CODE = "```python\ndef double(n):\n    return {}\n```"
STEPS = ["6 * 7", "1 / 0"]
# What may differ: clocks, ids, the sandbox of a worker, and what was asked for again.
VOLATILE = {
    *("at", "id", "timestamp", "seconds", "wall_seconds", "cpu_seconds", "peak_memory_bytes"),
    *("remaining_s", "waited_s", "context_tokens_used", "attempts", "retried", "cancelled"),
    "backend",
}
# A problem of HumanEval, whose own example finds the first answer wrong.
TEST = "test\n```python\nassert truncate_number(1.25) == 0.25\n```"
TRIED = "[answer]\n```python\ndef truncate_number(number):\n    return {}\n```"
LESSON = "I rounded down. Next time I subtract."
CALL_SECONDS = 10.0
BOUND: dict[str, Any] = {"call_timeout_seconds": CALL_SECONDS}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ask": (
        "SelfConsistencyWorkflow",
        {
            "question": "How much?",
            "seed": 0,
            "answers": "number",
            "max_responses": 10,
            "sample_timeout_seconds": CALL_SECONDS,
        },
    ),
    "reflect": (
        "ReflectOnResultWorkflow",
        {"query": "Explain how a tide table is made, and for whom", "max_revisions": 2, **BOUND},
    ),
    "agent": (
        "MultiPathWorkflow",
        {"prompt": "Write the function double(n) that doubles.", **BOUND},
    ),
    "turn": (
        "ToolTurnWorkflow",
        {"message": "Compute it", "think_level": "low", "budget_seconds": 3_000.0, **BOUND},
    ),
    "reflexion": ("ReflexionWorkflow", {"environment": "code", "task": "HumanEval/2", **BOUND}),
    "session": (
        "SessionWorkflow",
        {"think_level": "low", "budget_seconds": 3_000.0, **BOUND, "turns_per_execution": 2},
    ),
    "batch": (
        "BatchWorkflow",
        {
            **batch_of(*DRAFTS, max_concurrency=2, runs_per_execution=2),
            "variants": [judging(**BOUND)],
        },
    ),
}


def replied(request: Body) -> Scripted:
    """Reply to every call of every workflow: the request alone says what, and after how long."""
    delay = zlib.crc32(json.dumps(request, sort_keys=True).encode()) % 6 / 10
    messages = request["messages"]
    prompt = str(messages[0]["content"])
    if "tools" in request:
        since = [message["role"] for message in messages]
        since = since[len(since) - since[::-1].index("user") :]
        step = since.count("assistant")
        if step < len(STEPS):
            made = calling(("calculate", json.dumps({"expression": STEPS[step]})))
            return Scripted(choices=made.choices, delay=delay)
        return Scripted("It is 42.", delay=delay)
    return Scripted(_said(request, prompt), delay=delay)


def _said(request: Body, prompt: str) -> str:
    if "You judge a draft" in prompt:
        score = next(score for draft, score in DRAFTS.items() if f'Draft: "{draft}"' in prompt)
        return judgement(prompt, score)
    if reflects(prompt):
        return "One place is missing."
    if "truncate_number" in prompt:
        return _learned(prompt)
    if "double(n)" in prompt:
        return _worked(prompt)
    if "tide table" in prompt:
        previous = [place for place, draft in enumerate(DRAFTS) if draft in prompt]
        return list(DRAFTS)[previous[-1] + 1 if previous else 0]
    return json.dumps({"reasoning": "counted", "answer": ANSWERS[request.get("seed") or 0]})


def _learned(prompt: str) -> str:
    if prompt.endswith("Reflection:"):
        return LESSON
    if "Observation 1" not in prompt.rpartition("\nTask: ")[2]:
        return TEST
    return TRIED.format("number % 1" if LESSON in prompt else "number // 1")


def _worked(prompt: str) -> str:
    if prompt.startswith("You decide which way"):
        return json.dumps({"reason": "it asks for a function", "mode": "code"})
    if prompt.startswith("You write tests"):
        tests = [{"call": call, "expected": value} for call, value in CASES.items()]
        return json.dumps({"reasoning": "by hand", "entry": "double", "tests": tests})
    return CODE.format("2 * n" if "Repair it" in prompt else "n + 2")


def reflects(prompt: str) -> bool:
    return prompt.startswith("You are a reflective")


def lasting(found: Any) -> Any:
    """Leave out what may differ between two runs: clocks, ids, and what was asked for again."""
    if isinstance(found, dict):
        return {name: lasting(one) for name, one in found.items() if name not in VOLATILE}
    return [lasting(one) for one in found] if isinstance(found, list) else found


async def persistent(call: Callable[[], Awaitable[Value]]) -> Value:
    """Make a call of the server until there is one that answers."""
    while True:
        try:
            return await call()
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            # The SDK raises this also where the caller itself is cancelled.
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error
        except RPCError as error:
            if error.status in {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND}:
                raise
        await asyncio.sleep(0.3)


async def made(
    client: Client, kind: str, name: str, asked: tuple[str, dict[str, Any]] | None = None
) -> Any:
    """Make one run to its end, whatever that is, and return what must be the same of it.

    It is of its kind of REQUESTS, or another workflow and request. A start whose reply was lost
    begins no second run.
    """
    workflow, request = asked or REQUESTS[kind]
    known: dict[str, Any] = {
        "id": name,
        "task_queue": TASK_QUEUE,
        "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
    }
    answers: list[Any] = []
    if kind == "session":
        for message in ("Compute it", "Compute again", "Once more"):
            answers += await persistent(partial(_send, client, known, message))
        handle = client.get_workflow_handle(name)
        await persistent(lambda: handle.execute_update("finish_now", {}, id="end"))
    else:
        kind_of = next(loop.request for loop in LOOPS if loop.workflow == workflow)
        # As the command line starts it.
        known["task_timeout"] = kind_of.model_validate(request).task_timeout()
        try:
            handle = await persistent(lambda: client.start_workflow(workflow, request, **known))
        except WorkflowAlreadyStartedError:
            handle = client.get_workflow_handle(name)
    try:
        result = await persistent(handle.result)
    except WorkflowFailureError as error:
        result = f"failed: {error.cause}"
    return json.loads(json.dumps(lasting([*answers, result])).replace(name, "NAME"))


async def _send(client: Client, known: dict[str, Any], message: str) -> list[Any]:
    """Send a message, with the start of the session if there is none, and wait for its answer."""
    begun = WithStartWorkflowOperation[Any, Any](*REQUESTS["session"], **known)
    answer = await client.execute_update_with_start_workflow(
        "send", {"message": message}, id=message, start_workflow_operation=begun
    )
    return [answer]
