"""The composition root: builds the adapters, registers workflows and activities, serves queues.

mull-worker                   every queue
mull-worker --queues llm      only model calls
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import telemetry
from activities.checks import check_draft, prepare_reflection, read_examples
from activities.code_tests.activity import TestingActivities
from activities.critique import CritiqueActivities
from activities.doctor import Examination
from activities.documents.retrieval import DocumentActivities, Retriever
from activities.installation import (
    answering_checks,
    call_checks,
    sandbox_checks,
    tool_checks,
    worker_checks,
)
from activities.language_model import port as models
from activities.language_model.port import Abilities, LanguageModel
from activities.multipath import MultiPathActivities
from activities.sampling import SamplingActivities
from activities.sandbox import port as sandboxes
from activities.sandbox.port import Sandbox, SandboxActivities, SandboxError
from activities.tools import port as tools
from activities.tools.activity import ToolActivities, check_arguments
from activities.tools.builtin import calculate, current_time, python_tool
from activities.tools.functions import functions_of, tools_in
from activities.tools.port import Library, ToolServer
from activities.turn import TurnActivities
from commands.command import drop_empty_variables, end_process
from connection import (
    CALIBRATION,
    CODE_HEARTBEAT_SECONDS,
    TASK_QUEUE,
    ConfigurationError,
    NoServerError,
    ServerActivities,
    address,
    connect,
)
from reflection.multipath.request import Limits
from reflection.request import explain, parse_request
from reflection.text import terminal_safe
from reflection.turn.approval import ToolRule
from workflows.base import Inbound
from workflows.batch import BatchWorkflow
from workflows.doctor import DoctorWorkflow
from workflows.multi_path import MultiPathWorkflow
from workflows.reflect_on_result import ReflectOnResultWorkflow
from workflows.self_consistency import SelfConsistencyWorkflow
from workflows.session import SessionWorkflow
from workflows.tool_turn import ToolTurnWorkflow

NAMES = {
    "mull": TASK_QUEUE,
    "llm": models.TASK_QUEUE,
    "code": sandboxes.TASK_QUEUE,
    "tools": tools.TASK_QUEUE,
}
QUEUES = tuple(NAMES)
# Those that a user starts: `DoctorWorkflow`, served beside them, has no progress and no sheet.
WORKFLOWS = [
    SelfConsistencyWorkflow,
    ReflectOnResultWorkflow,
    MultiPathWorkflow,
    ToolTurnWorkflow,
    BatchWorkflow,
    SessionWorkflow,
]
GRACE = timedelta(seconds=20)
NOTICE_CANCELLING = timedelta(seconds=2)
STICKY = timedelta(seconds=5)

LIMITS = "MULL_SANDBOX_LIMITS"
CEILING = Limits(wall_seconds=60, cpu_seconds=60)

logger = logging.getLogger("mull.worker")


def supposed(_: str | None) -> Abilities:
    """Suppose that a model takes tools, and has no setting for how it thinks."""
    return Abilities(tools=True, effort=False)


class Adapters(NamedTuple):
    """The adapters for models and for documents on this machine.

    `abilities` tells how a model takes tools and thinks, without a call of it.
    """

    model: LanguageModel | None = None
    retriever: Library | None = None
    abilities: Callable[[str | None], Abilities] = supposed


@contextlib.contextmanager
def adapters(
    queues: Sequence[str], default: str | None, calls_per_second: float | None = None
) -> Iterator[Adapters]:
    """Build the adapters that these queues need; start the embedded model if it is used."""
    if not {"llm", "tools"}.intersection(queues):
        yield Adapters()
        return
    # These imports take seconds; `--help` and tests with their own model do not need them. What
    # they make stays for good: to search it for garbage would take a quarter of that time in vain.
    gc.disable()
    from activities.documents.folder import FolderRetriever

    with contextlib.ExitStack() as stack:
        retriever = FolderRetriever.from_environment(os.environ)
        stack.callback(retriever.close)
        known = Adapters(None, retriever)
        if "llm" in queues:
            from activities.language_model.embedded import EmbeddedModel
            from activities.language_model.layers import ObservedModel, PacedModel
            from activities.language_model.litellm_model import LiteLLMModel

            endpoints = {}
            if default == EmbeddedModel.name:
                endpoints[default] = stack.enter_context(EmbeddedModel()).endpoint
            called = LiteLLMModel(default, endpoints)
            model = PacedModel(ObservedModel(called, default), default, calls_per_second)
            known = Adapters(model, retriever, called.abilities)
        gc.freeze()
        gc.enable()
        yield known


def toolbox(options: argparse.Namespace, library: Library | None) -> ToolActivities:
    """Gather the tools that the options name beside the built-in ones, and the rules for calls.

    Raises ConfigurationError, which names the file and the field.
    """
    rules: tuple[ToolRule, ...] = ()
    servers: Sequence[ToolServer] = ()
    path: Path | None = None
    try:
        marked = [function for module in options.tools for function in tools_in(module)]
        functions = functions_of(calculate, current_time, python_tool(None), *marked)
        if path := options.approve:
            rules = parse_request(tuple[ToolRule, ...], path.read_bytes())
        if path := options.mcp:
            # The client takes a second to import.
            from activities.tools.servers import read_servers

            servers = read_servers(path.read_bytes(), os.environ)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {explain(error)}" if path else str(error)) from None
    return ToolActivities(functions, servers, library, rules)


async def confined(queues: Sequence[str]) -> Sandbox | None:
    """Choose the sandbox for untrusted code, if these queues need one; None if there is none.

    Raises SandboxError if no sandbox passes its self-test and there is no other queue to serve,
    and ConfigurationError.
    """
    if "code" not in queues:
        return None
    from activities.sandbox.selftest import choose

    try:
        given = os.environ.get(LIMITS)
        ceiling = Limits.model_validate_json(given) if given else CEILING
        *_, chosen = await choose(ceiling)
    except ValidationError as error:
        raise ConfigurationError(f"{LIMITS}: {explain(error)}") from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    except SandboxError as error:
        if set(queues) == {"code"}:
            raise
        logger.warning("%s is not served: %s", NAMES["code"], error)
        return None
    logger.info("sandbox: %s", chosen.described)
    assert chosen.sandbox is not None  # noqa: S101 - it passed
    return chosen.sandbox


def build(
    client: Client,
    queues: Sequence[str],
    model: LanguageModel | None,
    calls_per_second: float | None = None,
    retriever: Retriever | None = None,
    sandbox: Sandbox | None = None,
    called: ToolActivities | None = None,
    abilities: Callable[[str | None], Abilities] = supposed,
    **workflow_options: Any,
) -> list[Worker]:
    """Build the workers for these queues, by their short names.

    Without a model the queue for model calls is not served, without a sandbox the queue for code,
    and without `called` the queue for tools; without a retriever no documents are searched.
    `workflow_options` are passed on to the workflow worker: tests use them to replay every task.
    """
    workers: list[Worker] = []
    if "mull" in queues:
        workers.append(_workflow_worker(client, workflow_options))
    if "llm" in queues and model is not None:
        turns = TurnActivities(model, abilities)
        workers.append(_model_worker(client, model, calls_per_second, retriever, turns))
    if "code" in queues and sandbox is not None:
        workers.append(_code_worker(client, sandbox))
    if "tools" in queues and called is not None:
        workers.append(
            Worker(
                client,
                task_queue=tools.TASK_QUEUE,
                activities=[
                    called.list_tools,
                    called.call_tool,
                    Examination(partial(tool_checks, called)).examine,
                ],
                max_heartbeat_throttle_interval=NOTICE_CANCELLING,
                graceful_shutdown_timeout=GRACE,
            )
        )
    return workers


def _workflow_worker(client: Client, options: dict[str, Any]) -> Worker:
    known = ServerActivities(client, os.environ.get(CALIBRATION))
    chosen: dict[str, Any] = {
        # The SDK's sandbox takes a third of a run's time. Import contracts, and strict replay tests
        # that do run in it, enforce the same rules: docs/adr/0009.
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "sticky_queue_schedule_to_start_timeout": STICKY,
        **options,
    }
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[*WORKFLOWS, DoctorWorkflow],
        activities=[
            known.registered_search_attributes,
            Examination(worker_checks).examine,
            prepare_reflection,
            check_draft,
            read_examples,
            check_arguments,
        ],
        interceptors=[Inbound()],
        graceful_shutdown_timeout=GRACE,
        **chosen,
    )


def _model_worker(
    client: Client,
    model: LanguageModel,
    calls_per_second: float | None,
    retriever: Retriever | None,
    turns: TurnActivities,
) -> Worker:
    judge = os.environ.get("MULL_JUDGE_MODEL")
    asked, critique = SamplingActivities(model), CritiqueActivities(model, judge)
    agent = MultiPathActivities(model, judge)
    searched = [] if retriever is None else [DocumentActivities(retriever).retrieve]
    return Worker(
        client,
        task_queue=models.TASK_QUEUE,
        activities=[
            asked.sample_answer,
            asked.compare_meaning,
            critique.write_draft,
            critique.revise_draft,
            critique.judge_draft,
            agent.route,
            agent.generate_report,
            agent.reflect_on_report,
            agent.generate_code,
            agent.write_tests,
            turns.describe_model,
            turns.ask_step,
            turns.reflect_midturn,
            turns.compact_messages,
            Examination(answering_checks, partial(call_checks, model)).examine,
            *searched,
        ],
        max_heartbeat_throttle_interval=NOTICE_CANCELLING,
        graceful_shutdown_timeout=GRACE,
        max_task_queue_activities_per_second=calls_per_second,
    )


def _code_worker(client: Client, sandbox: Sandbox) -> Worker:
    return Worker(
        client,
        task_queue=sandboxes.TASK_QUEUE,
        # Tasks beyond this number wait in the queue, where another worker may take them.
        max_concurrent_activities=sandbox.at_once,
        activities=[
            SandboxActivities(sandbox).run_code,
            TestingActivities(sandbox).test_code,
            ToolActivities(functions_of(python_tool(sandbox))).call_tool,
            Examination(sandbox_checks).examine,
        ],
        max_heartbeat_throttle_interval=timedelta(seconds=CODE_HEARTBEAT_SECONDS),
        graceful_shutdown_timeout=GRACE,
    )


async def serve(options: argparse.Namespace) -> None:
    """Serve until a signal, then let calls in flight end, unless there is a second signal."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def stop_in_order() -> None:
        on_signals(end_at_once)
        loop.call_soon_threadsafe(stop.set)

    default = os.environ.get("MULL_MODEL")
    if default is None and "llm" in options.queues:
        logger.warning("MULL_MODEL is not set: runs that do not name a model will fail")
    client = await connect()
    runs = await confined(options.queues)
    queues = [name for name in options.queues if name != "code" or runs is not None]
    rate = options.calls_per_second
    with adapters(queues, default, rate) as (model, retriever, abilities):
        called = toolbox(options, retriever) if "tools" in queues else None
        on_signals(stop_in_order)
        async with contextlib.AsyncExitStack() as stack:
            if called is not None:
                stack.push_async_callback(called.close)
            for worker in build(client, queues, model, rate, retriever, runs, called, abilities):
                await stack.enter_async_context(worker)
            logger.info("serving %s at %s", ", ".join(NAMES[queue] for queue in queues), address())
            await stop.wait()
            logger.info("stopping: calls in flight have up to %d s", GRACE.total_seconds())


def end_at_once() -> NoReturn:
    """End this process, also in the midst of an import; what it has started ends with it."""
    os._exit(0)


def on_signals(action: Callable[[], object]) -> None:
    """Do this at the next SIGINT or SIGTERM, even while the event loop is blocked."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: action())


def silence_ordinary() -> None:
    """Silence expected warnings of the SDK and of LiteLLM.

    These are about calls in flight when a run ends, late cancellations, and LiteLLM's types.
    """
    logging.getLogger("temporalio.activity").addFilter(is_worth_reading)
    # A run that leaves the cache ends its spans in another context, which does no harm.
    logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)
    for said in ("Cannot find activity to cancel", "Items? .* on TypedDict class"):
        warnings.filterwarnings("ignore", said, UserWarning)


def is_worth_reading(record: logging.LogRecord) -> bool:
    """Return False for the log record of a cancelled activity."""
    error = record.exc_info[1] if record.exc_info else None
    cancelled = isinstance(error, asyncio.CancelledError)
    return not (cancelled and str(record.msg).startswith("Completing activity as failed"))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mull-worker",
        description="Serve Mull's task queues until interrupted.",
        epilog="MULL_MODEL (any LiteLLM name) answers, with its provider's key in the "
        "environment. MULL_JUDGE_MODEL judges drafts; without it, MULL_MODEL does. "
        "Example: MULL_MODEL=openai/gpt-5-mini mull-worker --queues llm. Exit codes: "
        "0 stopped by a signal, 1 failed, 2 wrong usage, 3 no server.",
    )
    parser.add_argument(
        "--queues",
        type=_queues,
        default=list(QUEUES),
        help="comma-separated: mull, llm, code, tools (default: all)",
    )
    parser.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module, or a Python file, with tools for turns; may be repeated",
    )
    parser.add_argument(
        "--mcp", type=Path, metavar="FILE", help="MCP servers, in the usual mcpServers shape"
    )
    parser.add_argument(
        "--approve", type=Path, metavar="FILE", help="rules for tool calls, a JSON list"
    )
    parser.add_argument(
        "--traces", type=Path, metavar="FILE", help="write spans to this file, as JSON"
    )
    parser.add_argument(
        "--calls-per-second",
        type=_rate,
        help="the most model calls a second of all workers together",
    )
    options = parser.parse_args(arguments)
    if "tools" not in options.queues and (options.tools or options.mcp or options.approve):
        parser.error("--tools, --mcp and --approve are for a worker that serves the queue tools")
    return options


def _queues(text: str) -> list[str]:
    names = [name.strip().removeprefix("mull-") for name in text.split(",") if name.strip()]
    if not names or not set(names) <= set(QUEUES):
        raise argparse.ArgumentTypeError(
            f"expected one or more of {', '.join(QUEUES)}, comma-separated"
        )
    return names


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return rate


def main(arguments: Sequence[str]) -> int:
    """Serve, and return an exit code: 0 stopped by a signal, 1 failed, 2 usage, 3 no server."""
    options = _parse(arguments)
    drop_empty_variables()
    on_signals(end_at_once)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    silence_ordinary()
    for chatty in ("LiteLLM", "httpx", "httpcore", "httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        tracing, metering = telemetry.set_up(options.traces), telemetry.measure()
    except OSError as error:
        return _failed(f"{options.traces} can't be written: {error.strerror}", 2)
    try:
        asyncio.run(serve(options))
    except NoServerError as error:
        return _failed(f"{error}.\nSet TEMPORAL_ADDRESS, or start one with `mull dev`", 3)
    except ConfigurationError as error:
        return _failed(str(error), 2)
    except SandboxError as error:
        return _failed(str(error), 1)
    except (RPCError, RuntimeError) as error:
        return _failed(f"the worker failed: {terminal_safe(str(error), 300)}", 1)
    finally:
        tracing.shutdown()
        if metering is not None:
            metering.shutdown()
    return 0


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"Error: {message}.\n")
    return code


def run() -> None:
    """Run the command `mull-worker`."""
    end_process(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
