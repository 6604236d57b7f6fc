"""The public names: histories, dashboards and other clients outlive the code behind them."""

from pydantic import ValidationError
from temporalio.workflow import _Definition

import adapters
import worker
from activities.agents import AgentActivities
from activities.checks import check_draft, prepare_reflection, read_examples
from activities.code_tests.activity import TestingActivities
from activities.critique import CritiqueActivities
from activities.doctor import Examination
from activities.documents.retrieval import DocumentActivities
from activities.environments.activity import Evaluator, Executor
from activities.memory import MemoryActivities
from activities.multipath import MultiPathActivities
from activities.quota import QuotaActivities
from activities.sampling import SamplingActivities
from activities.sandbox.port import SandboxActivities
from activities.tools.activity import ToolActivities, check_arguments
from activities.turn import TurnActivities
from activities.webhook import WebhookActivities
from mull import telemetry
from mull.telemetry import ServerActivities

ACTIVITIES = {
    SamplingActivities: ["compare_meaning", "sample_answer"],
    ServerActivities: ["registered_search_attributes"],
    CritiqueActivities: ["judge_draft", "revise_draft", "write_draft"],
    DocumentActivities: ["retrieve"],
    MultiPathActivities: [
        "generate_code", "generate_report", "reflect_on_report", "route", "write_tests",
    ],
    Examination: ["examine"],
    SandboxActivities: ["run_code"],
    TestingActivities: ["test_code"],
    ToolActivities: ["call_tool", "list_tools"],
    TurnActivities: ["ask_step", "compact_messages", "describe_model", "reflect_midturn"],
    WebhookActivities: ["send_notice"],
    AgentActivities: ["judge_episode", "plan_action", "reflect_on_episode"],
    Executor: ["begin_task", "execute_action"],
    Evaluator: ["evaluate_episode", "verify_answer"],
    MemoryActivities: ["recall_reflections", "remember_reflection"],
    QuotaActivities: ["see_runs"],
}  # fmt: skip


def names_of(kind: type) -> list[str]:
    marked = [getattr(each, "__temporal_activity_definition", None) for each in vars(kind).values()]
    return sorted(each.name for each in marked if each is not None)


def test_workflow_types_queries_and_updates() -> None:
    """The types and their handlers have the names that other clients call.

    Only a malformed request fails a run by itself: a nondeterministic one waits for mended code.
    """
    definitions = [
        _Definition.must_from_class(kind) for kind in (*worker.WORKFLOWS, *worker.HELPERS)
    ]

    assert {
        each.name: (*sorted(map(str, each.queries)), *sorted(map(str, each.updates)))
        for each in definitions
    } == {
        "SelfConsistencyWorkflow": ("decisions", "progress", "add_answer", "finish_now", "review"),
        "ReflectOnResultWorkflow": ("decisions", "progress", "finish_now", "review"),
        "MultiPathWorkflow": ("decisions", "progress", "finish_now", "review"),
        "ToolTurnWorkflow": ("decisions", "progress", "finish_now", "permit", "review"),
        "BatchWorkflow": ("progress", "add_page", "finish_now", "pause", "resume"),
        "SessionWorkflow": ("progress", "finish_now", "send"),
        "ReflexionWorkflow": ("decisions", "progress", "finish_now", "review"),
        "RetroformerWorkflow": ("decisions", "progress", "finish_now", "review"),
        "RetroformerRolloutWorkflow": ("decisions", "progress", "finish_now", "review"),
        "RetroformerTrainingWorkflow": ("decisions", "progress", "finish_now"),
        "MemoryWorkflow": ("memory", "clear", "remember"),
        "QuotaWorkflow": ("quota", "take_place"),
        "DoctorWorkflow": (),
        "WebhookWorkflow": (),
    }
    signals = {each.name: tuple(each.signals) for each in definitions if each.signals}
    assert signals == {
        "BatchWorkflow": ("allow", "page_ended"),
        "RetroformerTrainingWorkflow": ("stage_progress",),
        "QuotaWorkflow": ("free_place",),
    }
    for each in definitions:
        assert list(each.failure_exception_types) == [ValidationError]


def test_activity_types() -> None:
    assert {kind: names_of(kind) for kind in ACTIVITIES} == ACTIVITIES
    quick = (check_arguments, check_draft, prepare_reflection, read_examples)
    found = [vars(each)["__temporal_activity_definition"].name for each in quick]
    assert found == ["check_arguments", "check_draft", "prepare_reflection", "read_examples"]


def test_search_attributes() -> None:
    """Names and types are as servers have them: 5 keywords, 3 doubles, 3 ints and a bool."""
    assert telemetry.SEARCH_ATTRIBUTES == {
        "MullStopReason": "Keyword",
        "MullConsensus": "Keyword",
        "MullUncertainty": "Keyword",
        "MullEntropyLevel": "Keyword",
        "MullModel": "Keyword",
        "MullConfidence": "Double",
        "MullScore": "Double",
        "MullCostUsd": "Double",
        "MullSamples": "Int",
        "MullRevisions": "Int",
        "MullTokens": "Int",
        "MullNeedsReview": "Bool",
    }


def test_the_agent_s_nodes_are_spans() -> None:
    """Each node is a span of its name, of the kind that OpenInference has for it."""
    assert telemetry.NODE_KINDS == {
        "retrieve": "RETRIEVER",
        "route": "CHAIN",
        "write_tests": "LLM",
        "generate_report": "LLM",
        "reflect_on_report": "EVALUATOR",
        "generate_code": "LLM",
        "test_code": "TOOL",
    }


def test_task_queues() -> None:
    """Clients and operators name the queues, the latter by their short names too."""
    assert adapters.QUEUES == {
        "mull": "mull",
        "llm": "mull-llm",
        "code": "mull-code",
        "tools": "mull-tools",
        "train": "mull-train",
    }


def test_spans() -> None:
    """Dashboards and queries on traces name these spans."""
    assert (
        telemetry.SPAN_RUN,
        telemetry.SPAN_WAVE,
        telemetry.SPAN_DECISION,
        telemetry.SPAN_CHAT,
        telemetry.SPAN_EVALUATION,
        telemetry.SPAN_REFLECTION,
        telemetry.SPAN_TOOL,
        telemetry.SPAN_TURN_REFLECTION,
        telemetry.EVENT_EVALUATION,
    ) == (
        "invoke_workflow {type}",
        "mull.wave",
        "mull.decision",
        "chat {model}",
        "evaluate {criteria}",
        "mull.reflect",
        "execute_tool {tool}",
        "mull.turn.reflect",
        "gen_ai.evaluation.result",
    )


def test_metrics() -> None:
    """Dashboards and alerts name these metrics and labels, beside those that the SDK adds."""
    assert {(each.kind, each.name, *each.labels) for each in telemetry.METRICS} == {
        ("counter", "mull_runs", "stop_reason"),
        ("counter", "mull_calls_saved"),
        ("counter", "mull_tokens", "model", "direction"),
        ("counter", "mull_activity_failures", "error_type"),
        ("counter", "mull_sandbox_outcomes", "outcome"),
        ("histogram_float", "mull_confidence"),
        ("histogram_float", "mull_probability"),
        ("histogram_float", "mull_score"),
        ("histogram_float", "mull_return"),
        ("histogram_float", "mull_cost_usd", "model"),
        ("gauge", "mull_reviews_waiting"),
        ("gauge", "mull_version_unserved", "build_id"),
        ("histogram_float", "mull_training_seconds", "stage"),
    }
