"""The composition root: builds the adapters, registers workflows and activities, serves queues.

worker.py                     every queue
worker.py --queues llm        model calls alone
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import telemetry
from activities import asking
from activities.checking import check_draft, prepare_reflection
from activities.critique import CritiqueActivities
from activities.language_model import LanguageModel
from activities.sampling import SamplingActivities
from activities.server import ServerActivities
from commands.console import end_process
from connection import TASK_QUEUE, ConfigurationError, NoServerError, address, connect
from reflection.plain import plain
from workflows.batch import BatchWorkflow
from workflows.reflect_on_result import ReflectOnResultWorkflow
from workflows.self_consistency import SelfConsistencyWorkflow

QUEUES = ("mull", "llm")
WORKFLOWS = [SelfConsistencyWorkflow, ReflectOnResultWorkflow, BatchWorkflow]
GRACE = timedelta(seconds=20)
NOTICE_CANCELLING = timedelta(seconds=2)
STICKY = timedelta(seconds=5)

logger = logging.getLogger("mull.worker")


def build(
    client: Client,
    queues: Sequence[str],
    model: LanguageModel,
    calls_per_second: float | None = None,
    **workflow_options: Any,
) -> list[Worker]:
    """Build the workers for these queues, by their short names.

    `workflow_options` go to the workflow worker as they are: tests replay every task by them.
    """
    workers: list[Worker] = []
    if "mull" in queues:
        workers.append(_workflow_worker(client, workflow_options))
    if "llm" in queues:
        workers.append(_model_worker(client, model, calls_per_second))
    return workers


def _workflow_worker(client: Client, options: dict[str, Any]) -> Worker:
    chosen: dict[str, Any] = {
        # Its cost is a third of a run's, and import contracts and strict replay tests, which do
        # run in the sandbox, hold workflow code to the same rules: docs/adr/0009.
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "sticky_queue_schedule_to_start_timeout": STICKY,
        **options,
    }
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=WORKFLOWS,
        activities=[
            ServerActivities(client).registered_search_attributes,
            prepare_reflection,
            check_draft,
        ],
        graceful_shutdown_timeout=GRACE,
        **chosen,
    )


def _model_worker(client: Client, model: LanguageModel, calls_per_second: float | None) -> Worker:
    asked = SamplingActivities(model)
    critique = CritiqueActivities(model, os.environ.get("MULL_JUDGE_MODEL") or None)
    return Worker(
        client,
        task_queue=asking.TASK_QUEUE,
        activities=[
            asked.sample_answer,
            asked.compare_meaning,
            critique.write_draft,
            critique.revise_draft,
            critique.judge_draft,
        ],
        max_heartbeat_throttle_interval=NOTICE_CANCELLING,
        graceful_shutdown_timeout=GRACE,
        max_task_queue_activities_per_second=calls_per_second,
    )


@contextlib.contextmanager
def adapters(default: str | None) -> Iterator[LanguageModel]:
    """Build what reaches the models; the embedded one runs where it is the default."""
    # These imports take seconds, which `--help` and tests with a model of their own do without.
    from activities.embedded.model import EmbeddedModel
    from activities.litellm_model import LiteLLMModel
    from activities.model_telemetry import ObservedModel

    if default != EmbeddedModel.name:
        yield ObservedModel(LiteLLMModel(default), default)
        return
    with EmbeddedModel() as embedded:
        endpoints = {EmbeddedModel.name: embedded.endpoint}
        yield ObservedModel(LiteLLMModel(default, endpoints), default)


async def serve(options: argparse.Namespace) -> None:
    """Serve until a signal says stop, then let calls under way end."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    default = os.environ.get("MULL_MODEL") or None
    if default is None and "llm" in options.queues:
        logger.warning("MULL_MODEL is not set: runs that name no model will fail")
    client = await connect()
    with adapters(default) as model:
        workers = build(client, options.queues, model, options.calls_per_second)
        async with contextlib.AsyncExitStack() as stack:
            for each in workers:
                await stack.enter_async_context(each)
            logger.info("serving %s at %s", _names(options.queues), address())
            await stop.wait()
            logger.info("stopping: calls under way have %d s", GRACE.total_seconds())


def _names(queues: Sequence[str]) -> str:
    known = {"mull": TASK_QUEUE, "llm": asking.TASK_QUEUE}
    return ", ".join(known[each] for each in queues)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Serve Mull's task queues until interrupted.",
        epilog="Answers come from MULL_MODEL, any LiteLLM name, with its provider's key in the "
        "environment; drafts are judged by MULL_JUDGE_MODEL, else by the same. "
        "Example: MULL_MODEL=openai/gpt-5-mini worker.py --queues llm. Exit codes: "
        "0 stopped by a signal, 1 failed, 2 wrong usage, 3 no server.",
    )
    parser.add_argument(
        "--queues", type=_queues, default=list(QUEUES), help="of: mull, llm (all of them)"
    )
    parser.add_argument("--traces", type=Path, metavar="FILE", help="write spans here, as JSON")
    parser.add_argument(
        "--calls-per-second", type=_rate, help="bound model calls of all workers together"
    )
    return parser.parse_args(arguments)


def _queues(text: str) -> list[str]:
    names = [each.strip().removeprefix("mull-") for each in text.split(",") if each.strip()]
    unknown = [each for each in names if each not in QUEUES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"one or more of {', '.join(QUEUES)}, with commas")
    return names


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError("a number above 0")
    return rate


def main(arguments: Sequence[str]) -> int:
    """Serve, and return an exit code: 0 stopped by a signal, 1 failed, 2 usage, 3 no server."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    for chatty in ("LiteLLM", "httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        tracing, metering = telemetry.set_up(options.traces), telemetry.measure()
    except OSError as error:
        return _failed(f"{options.traces} can't be written: {error.strerror}", 2)
    try:
        asyncio.run(serve(options))
    except NoServerError as error:
        return _failed(f"{error}.\nSet TEMPORAL_ADDRESS, or try `starter.py dev`", 3)
    except ConfigurationError as error:
        return _failed(str(error), 2)
    except (RPCError, RuntimeError) as error:
        return _failed(f"the worker can't serve: {plain(str(error), 300)}", 1)
    finally:
        tracing.shutdown()
        if metering is not None:
            metering.shutdown()
    return 0


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"Error: {message}.\n")
    return code


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
