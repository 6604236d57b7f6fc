"""The task queues: which workflows and activities a worker of each has."""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.checks import check_draft, prepare_reflection, read_examples
from activities.code_tests.activity import TestingActivities
from activities.critique import CritiqueActivities
from activities.documents.retrieval import DocumentActivities, Retriever
from activities.heartbeat import CODE_HEARTBEAT_SECONDS
from activities.language_model import port as models
from activities.language_model.port import LanguageModel
from activities.multipath import MultiPathActivities
from activities.sampling import SamplingActivities
from activities.sandbox import port as sandboxes
from activities.sandbox.activity import SandboxActivities
from activities.sandbox.port import Sandbox
from activities.server import ServerActivities
from connection import TASK_QUEUE
from workflows.batch import BatchWorkflow
from workflows.multi_path import MultiPathWorkflow
from workflows.reflect_on_result import ReflectOnResultWorkflow
from workflows.self_consistency import SelfConsistencyWorkflow

NAMES = {"mull": TASK_QUEUE, "llm": models.TASK_QUEUE, "code": sandboxes.TASK_QUEUE}
QUEUES = tuple(NAMES)
WORKFLOWS = [SelfConsistencyWorkflow, ReflectOnResultWorkflow, MultiPathWorkflow, BatchWorkflow]
GRACE = timedelta(seconds=20)
NOTICE_CANCELLING = timedelta(seconds=2)
STICKY = timedelta(seconds=5)


def build(
    client: Client,
    queues: Sequence[str],
    model: LanguageModel | None,
    calls_per_second: float | None = None,
    retriever: Retriever | None = None,
    sandbox: Sandbox | None = None,
    **workflow_options: Any,
) -> list[Worker]:
    """Build the workers for these queues, by their short names.

    Without a model the queue for calls is not served, and without a sandbox that for code; without
    a retriever no documents are searched. `workflow_options` go to the workflow worker as they
    are: tests replay every task by them.
    """
    workers: list[Worker] = []
    if "mull" in queues:
        workers.append(_workflow_worker(client, workflow_options))
    if "llm" in queues and model is not None:
        workers.append(_model_worker(client, model, calls_per_second, retriever))
    if "code" in queues and sandbox is not None:
        workers.append(_code_worker(client, sandbox))
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
            read_examples,
        ],
        graceful_shutdown_timeout=GRACE,
        **chosen,
    )


def _model_worker(
    client: Client,
    model: LanguageModel,
    calls_per_second: float | None,
    retriever: Retriever | None,
) -> Worker:
    judge = os.environ.get("MULL_JUDGE_MODEL") or None
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
        # What a worker has no place for waits in the queue, where another may take it.
        max_concurrent_activities=sandbox.at_once,
        activities=[SandboxActivities(sandbox).run_code, TestingActivities(sandbox).test_code],
        max_heartbeat_throttle_interval=timedelta(seconds=CODE_HEARTBEAT_SECONDS),
        graceful_shutdown_timeout=GRACE,
    )
