"""The composition root: builds the adapters, registers workflows and activities, serves queues.

mull-worker                   every queue
mull-worker --queues llm      only model calls
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from activities.agents import AgentActivities
from activities.checks import check_draft, prepare_reflection, read_examples
from activities.code_tests.activity import TestingActivities
from activities.critique import CritiqueActivities
from activities.doctor import Examination
from activities.documents.retrieval import DocumentActivities, Retriever
from activities.environments.activity import Evaluator, Executor, LiveEnvironments
from activities.environments.port import Named
from activities.installation import (
    answering_checks,
    call_checks,
    sandbox_checks,
    tool_checks,
    training_checks,
    worker_checks,
)
from activities.language_model import port as models
from activities.language_model.port import Abilities, LanguageModel
from activities.memory import MemoryActivities
from activities.multipath import MultiPathActivities
from activities.quota import QuotaActivities
from activities.sampling import SamplingActivities
from activities.sandbox import port as sandboxes
from activities.sandbox.port import Sandbox, SandboxActivities, SandboxError
from activities.tools import port as tools
from activities.tools.activity import Callers, ToolActivities, check_arguments
from activities.tools.builtin import python_tool
from activities.tools.functions import functions_of
from activities.turn import TurnActivities
from activities.webhook import WebhookActivities
from adapters import (
    QUEUES,
    WorkerOptions,
    adapters,
    confined,
    environments,
    parse,
    servable,
    slots,
    supposed,
    toolbox,
    trained,
    webhook_of,
)
from commands.command import end_after, end_process, read_secrets
from mull import telemetry
from mull.connection import CALIBRATION, GRACE_SECONDS, connect, silence, strict
from mull.errors import ConfigurationError, NoServerError
from mull.nexus import ServiceHandler
from mull.queues import queue_of
from mull.text import terminal_safe
from service import (
    REBUILDS,
    UNVERSIONED,
    Health,
    MovingRunner,
    announce,
    count_reviews,
    deployment,
    rebuild_traces,
    say_version,
    set_up_log,
    set_up_runtime,
    start_metrics,
    watch_versions,
)
from workflows.base import Inbound
from workflows.batch import BatchWorkflow
from workflows.doctor import DoctorWorkflow
from workflows.memory import MemoryWorkflow
from workflows.multi_path import MultiPathWorkflow
from workflows.notices import WebhookWorkflow
from workflows.quota import QuotaWorkflow
from workflows.reflect_on_result import ReflectOnResultWorkflow
from workflows.reflexion import ReflexionWorkflow
from workflows.retroformer import RetroformerRolloutWorkflow, RetroformerWorkflow
from workflows.self_consistency import SelfConsistencyWorkflow
from workflows.session import SessionWorkflow
from workflows.tool_turn import ToolTurnWorkflow
from workflows.training import RetroformerTrainingWorkflow

# Those that a user starts: the helpers, served beside them, have no progress and no sheet.
WORKFLOWS = [
    SelfConsistencyWorkflow,
    ReflectOnResultWorkflow,
    MultiPathWorkflow,
    ToolTurnWorkflow,
    ReflexionWorkflow,
    RetroformerWorkflow,
    RetroformerTrainingWorkflow,
    BatchWorkflow,
    SessionWorkflow,
]
HELPERS = [
    RetroformerRolloutWorkflow, MemoryWorkflow, QuotaWorkflow, DoctorWorkflow, WebhookWorkflow,
]  # fmt: skip
# Where workers have versions, these move to the newest: they last, or belong to no version.
MOVING = frozenset({SessionWorkflow, *HELPERS}) - {RetroformerRolloutWorkflow}
# The seconds that calls in flight have once a worker is told to stop. LAST_SECONDS after the
# longest of these it ends, even if something can't be evicted or closed: deploy/ has it killed
# later than that.
GRACE = {"mull": 20, "llm": GRACE_SECONDS, "code": 20, "tools": 20, "train": 20}
LAST_SECONDS = 10.0
# A dead worker's run waits for so long before another takes it, and often twice: for its call, and
# for what comes of it. A busy one that needs longer for a task has the run replayed whole, in some
# 30 ms: 25 tasks of 120 runs of 10 samples at once did.
STICKY = timedelta(seconds=1)
# Workflow tasks share one interpreter lock. Of the SDK's 100 side by side each is so slow that on a
# busy machine one is taken for deadlocked, after 2 s; fewer are done sooner.
TASKS_AT_ONCE = 16
# Half of them for runs that begin, of which the SDK's own number would take one at a time: behind a
# thousand runs under way a new one would not begin for a minute.
POLLS = 10

logger = logging.getLogger("mull.worker")


def build(
    client: Client,
    queues: Iterable[str],
    model: LanguageModel | None = None,
    *,
    abilities: Callable[[str | None], Abilities] = supposed,
    calls_per_second: float | None = None,
    retriever: Retriever | None = None,
    sandbox: Sandbox | None = None,
    called: ToolActivities | None = None,
    environments: Sequence[Named] = (),
    build_id: str | None = None,
    webhook: WebhookActivities | None = None,
    trains: Sequence[Callable[..., Any]] | None = None,
    nexus: bool = False,
    **workflow_options: Any,
) -> list[Worker]:
    """Build the workers for these queues, by their short names.

    Without a model the queue for model calls is not served, without a sandbox the queue for code,
    without `called` the queue for tools, and without `trains` the queue for training; without a
    retriever no documents are searched. Of the `environments` each queue serves its own. With a
    `build_id` they are a version of the worker deployment, and with `nexus` the queue for runs has
    the Nexus service too. `workflow_options` are passed on to the workflow worker: tests use them.
    """
    client, queues, served = strict(client), set(queues), dict[str, dict[str, Any]]()
    if "mull" in queues:
        served["mull"] = _runs(client, build_id, webhook, nexus=nexus) | workflow_options
    if "llm" in queues and model is not None:
        turns = TurnActivities(model, abilities)
        served["llm"] = _model_calls(model, calls_per_second, retriever, turns)
    if "code" in queues and sandbox is not None:
        served["code"] = _code(sandbox, environments)
    if "tools" in queues and called is not None:
        names = [one.name for one in environments if queue_of(one.name) == tools.TASK_QUEUE]
        examined = Examination(partial(tool_checks, called, names)).examine
        acting = _acting(environments, tools.TASK_QUEUE)
        served["tools"] = {"activities": [called.list_tools, called.call_tool, examined, *acting]}
    callers = Callers(client, {kind.__name__ for kind in (*WORKFLOWS, *HELPERS)})
    for queue in served.keys() & {"code", "tools"}:
        served[queue]["interceptors"] = [callers]
    if "train" in queues and trains is not None:
        served["train"] = {"activities": [*trains, Examination(training_checks).examine]}
    # By itself the SDK would read and hash every module.
    shared: dict[str, Any] = {"build_id": UNVERSIONED}
    if build_id:
        shared = {"deployment_config": deployment(build_id)}
    return [
        Worker(
            client,
            task_queue=QUEUES[queue],
            graceful_shutdown_timeout=timedelta(seconds=GRACE[queue]),
            interceptors=[telemetry.Attempts(client), *options.pop("interceptors", ())],
            **(shared | options),
        )
        for queue, options in served.items()
    ]


@contextlib.asynccontextmanager
async def running(workers: Iterable[Worker]) -> AsyncIterator[None]:
    """Serve with these workers while the block runs."""
    async with contextlib.AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        yield


def _runs(
    client: Client, build_id: str | None, webhook: WebhookActivities | None, *, nexus: bool
) -> dict[str, Any]:
    known = telemetry.ServerActivities(
        client, os.environ.get(CALIBRATION), webhook=webhook is not None
    )
    shared = MemoryActivities(client)
    encrypted_only = getattr(client.data_converter.payload_codec, "strict", False)
    return {
        "workflows": [*WORKFLOWS, *HELPERS],
        "activities": [
            known.registered_search_attributes,
            Examination(worker_checks).examine,
            prepare_reflection,
            check_draft,
            read_examples,
            check_arguments,
            shared.recall_reflections,
            shared.remember_reflection,
            QuotaActivities(client).see_runs,
            *([] if webhook is None else [webhook.send_notice]),
        ],
        "nexus_service_handlers": [ServiceHandler()] if nexus else [],
        "interceptors": [Inbound(strict=encrypted_only)],
        # The SDK's sandbox takes a third of a run's time. Import contracts, and strict replay tests
        # that do run in it, enforce the same rules: docs/adr/0009.
        "workflow_runner": MovingRunner(MOVING) if build_id else UnsandboxedWorkflowRunner(),
        "sticky_queue_schedule_to_start_timeout": STICKY,
        "max_concurrent_workflow_tasks": TASKS_AT_ONCE,
        "workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(POLLS),
        "nonsticky_to_sticky_poll_ratio": 0.5,
    }


def _model_calls(
    model: LanguageModel,
    calls_per_second: float | None,
    retriever: Retriever | None,
    turns: TurnActivities,
) -> dict[str, Any]:
    judge = os.environ.get("MULL_JUDGE_MODEL")
    asked, critique = SamplingActivities(model), CritiqueActivities(model, judge)
    agent, acting = MultiPathActivities(model, judge), AgentActivities(model)
    searched = [] if retriever is None else [DocumentActivities(retriever).retrieve]
    return {
        "activities": [
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
            acting.plan_action,
            acting.reflect_on_episode,
            acting.judge_episode,
            turns.describe_model,
            turns.ask_step,
            turns.reflect_midturn,
            turns.compact_messages,
            Examination(answering_checks, partial(call_checks, model)).examine,
            *searched,
        ],
        "interceptors": [telemetry.CallSpans()],
        "max_task_queue_activities_per_second": calls_per_second,
    }


def _acting(environments: Sequence[Named], queue: str) -> list[Callable[..., Any]]:
    """List the executor's and the evaluator's activities for the environments of a queue."""
    live = LiveEnvironments(one for one in environments if queue_of(one.name) == queue)
    executor, evaluator = Executor(live), Evaluator(live)
    return [
        executor.begin_task,
        executor.execute_action,
        evaluator.evaluate_episode,
        evaluator.verify_answer,
    ]


def _code(sandbox: Sandbox, environments: Sequence[Named]) -> dict[str, Any]:
    names = [one.name for one in environments if queue_of(one.name) == sandboxes.TASK_QUEUE]
    return {
        "tuner": slots(sandbox.at_once),
        "activities": [
            SandboxActivities(sandbox).run_code,
            TestingActivities(sandbox).test_code,
            ToolActivities(functions_of(python_tool(sandbox))).call_tool,
            Examination(partial(sandbox_checks, names)).examine,
            *_acting(environments, sandboxes.TASK_QUEUE),
        ],
    }


def _watches(options: WorkerOptions, client: Client) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield what a worker on `mull` does beside its runs."""
    if options.metrics is not None:
        yield count_reviews(client)
        yield watch_versions(client, QUEUES.values())
    if os.environ.get(REBUILDS) == "1":
        yield rebuild_traces(options.traces, options.log)


def _default_model(queues: Sequence[str]) -> str | None:
    """Return the model of runs that name none, and log which ones they may name."""
    default = os.environ.get("MULL_MODEL")
    if default is None and "llm" in queues:
        logger.warning("MULL_MODEL is not set: runs that do not name a model will fail")
    if models.MODELS not in os.environ and "llm" in queues:
        logger.info("%s is not set: requests may name any model", models.MODELS)
    return default


async def serve(options: WorkerOptions, health: Health | None, flush: Callable[[], None]) -> None:
    """Serve until a signal, then let calls in flight end, unless there is a second signal."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def stop_in_order() -> None:
        if health is not None:
            health.draining = True
        on_signals(end_at_once)
        loop.call_soon_threadsafe(stop.set)

    served = servable(options.queues or QUEUES, chosen=options.queues is not None)
    webhook = webhook_of(os.environ) if "mull" in served else None
    silence()
    default = _default_model(served)
    # Imported objects stay for good: searching them for garbage takes a quarter of the time.
    gc.disable()
    client = await connect(only_code=set(served) == {"code"})
    rate, version = options.calls_per_second, options.build_id
    async with contextlib.AsyncExitStack() as stack:
        watches, first = [], list[Worker]()
        if "mull" in served:
            # Runs go on at once, and need what takes seconds to load only for their next call.
            first = build(client, ["mull"], build_id=version, webhook=webhook, nexus=options.nexus)
            start_metrics(client, first, version)
            await stack.enter_async_context(running(first))
            watches += [asyncio.create_task(each) for each in _watches(options, client)]
        # The sandbox is tested by other processes: meanwhile a thread imports what takes longest.
        entered = adapters(served, default, rate)
        loading = asyncio.to_thread(lambda: stack.enter_context(entered))
        runs, known = await asyncio.gather(confined(served), loading)
        queues = [name for name in served if name != "code" or runs is not None]
        called = toolbox(options, known.retriever) if "tools" in queues else None
        acting = environments(queues, options.environments or (), known.retriever, runs)
        gc.freeze()
        gc.enable()
        on_signals(stop_in_order)
        if called is not None:
            stack.push_async_callback(called.close)
        trains = await stack.enter_async_context(trained(served, options, client))
        workers = build(
            client,
            [name for name in queues if name != "mull"],
            **known._asdict(),
            calls_per_second=rate,
            sandbox=runs,
            called=called,
            environments=acting,
            build_id=version,
            trains=trains,
        )
        start_metrics(client, workers, version)
        await stack.enter_async_context(running(workers))
        names = [QUEUES[queue] for queue in queues]
        serves = asyncio.Event()
        also = [announce(client, names, serves)]
        also += [] if version is None else [say_version(client, version)]
        also += [] if health is None else [health.watch(client, serves)]
        watches += [asyncio.create_task(each) for each in also]
        await stop.wait()
        most = max(GRACE[queue] for queue in queues)
        logger.info("stopping: calls in flight have up to %d s", most)
        end_after(most + LAST_SECONDS, flush)
        # Side by side: one after the other their graces would add up.
        await asyncio.gather(*(each.shutdown() for each in (*first, *workers)))


def end_at_once() -> NoReturn:
    """End this process, also in the midst of an import; what it has started ends with it."""
    os._exit(0)


def on_signals(action: Callable[[], object]) -> None:
    """Do this at the next SIGINT or SIGTERM, even while the event loop is blocked."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: action())


def main(arguments: Sequence[str]) -> int:
    """Serve, and return an exit code: 0 stopped by a signal, 1 failed, 2 usage, 3 no server."""
    options = parse(arguments)
    read_secrets()
    on_signals(end_at_once)
    set_up_log(options.log)
    try:
        tracing, metering = telemetry.set_up(options.traces), telemetry.measure()
    except OSError as error:
        return _failed(options, 2, f"{options.traces} can't be written: {error.strerror}")

    def flush() -> None:
        tracing.shutdown()
        if metering is not None:
            metering.shutdown()

    try:
        set_up_runtime(options.metrics)
        asyncio.run(serve(options, options.health and Health(options.health), flush))
    except NoServerError as error:
        return _failed(options, 3, f"{error.fact}.\n{error.advice.rstrip('.')}")
    except ConfigurationError as error:
        return _failed(options, 2, str(error))
    except SandboxError as error:
        return _failed(options, 1, str(error))
    except (RPCError, RuntimeError) as error:
        return _failed(options, 1, f"the worker failed: {terminal_safe(str(error), 300)}")
    finally:
        flush()
    return 0


def _failed(options: WorkerOptions, code: int, message: str) -> int:
    if options.log == "json":
        logger.critical(message)
    else:
        sys.stderr.write(f"Error: {message}.\n")
    return code


def run() -> None:
    """Run the command `mull-worker`."""
    end_process(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
