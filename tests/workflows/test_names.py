"""The public names: histories, dashboards and other clients outlive the code behind them."""

import pytest
from pydantic import ValidationError

import telemetry
import worker
from activities.checks import check_draft, prepare_reflection, read_examples
from activities.code_tests.activity import TestingActivities
from activities.critique import CritiqueActivities
from activities.documents.retrieval import DocumentActivities
from activities.multipath import MultiPathActivities
from activities.sampling import SamplingActivities
from activities.sandbox.port import SandboxActivities
from activities.server import ServerActivities
from workflows.batch import BatchWorkflow
from workflows.multi_path import MultiPathWorkflow
from workflows.reflect_on_result import ReflectOnResultWorkflow
from workflows.self_consistency import SelfConsistencyWorkflow


def names_of(kind: type, marker: str) -> list[str]:
    found = [getattr(each, marker, None) for each in vars(kind).values()]
    return sorted(each.name for each in found if each is not None)


@pytest.mark.parametrize(
    ("workflow", "name", "queries", "updates"),
    [
        (
            SelfConsistencyWorkflow,
            "SelfConsistencyWorkflow",
            ["decisions", "progress"],
            ["add_answer", "finish_now", "review"],
        ),
        (
            ReflectOnResultWorkflow,
            "ReflectOnResultWorkflow",
            ["decisions", "progress"],
            ["finish_now", "review"],
        ),
        (
            MultiPathWorkflow,
            "MultiPathWorkflow",
            ["decisions", "progress"],
            ["finish_now", "review"],
        ),
        (BatchWorkflow, "BatchWorkflow", ["progress"], ["finish_now"]),
    ],
)
def test_workflow_types_queries_and_updates(
    workflow: type, name: str, queries: list[str], updates: list[str]
) -> None:
    """The type and its handlers have the names that other clients call.

    Only a malformed request fails a run by itself: a nondeterministic one waits for mended code.
    """
    definition = vars(workflow)["__temporal_workflow_definition"]

    assert definition.name == name
    assert sorted(definition.queries) == queries
    assert sorted(definition.updates) == updates
    assert list(definition.failure_exception_types) == [ValidationError]


def test_activity_types() -> None:
    """Histories name activities by these types."""
    marker = "__temporal_activity_definition"

    assert names_of(SamplingActivities, marker) == ["compare_meaning", "sample_answer"]
    assert names_of(ServerActivities, marker) == ["registered_search_attributes"]
    assert names_of(CritiqueActivities, marker) == ["judge_draft", "revise_draft", "write_draft"]
    assert names_of(DocumentActivities, marker) == ["retrieve"]
    assert names_of(MultiPathActivities, marker) == [
        "generate_code",
        "generate_report",
        "reflect_on_report",
        "route",
        "write_tests",
    ]
    assert names_of(SandboxActivities, marker) == ["run_code"]
    assert names_of(TestingActivities, marker) == ["test_code"]
    local = (check_draft, prepare_reflection, read_examples)
    quick = [vars(each)[marker].name for each in local]
    assert quick == ["check_draft", "prepare_reflection", "read_examples"]


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
    assert worker.NAMES == {"mull": "mull", "llm": "mull-llm", "code": "mull-code"}


def test_spans() -> None:
    """Dashboards and queries on traces name these spans."""
    assert (
        telemetry.SPAN_RUN,
        telemetry.SPAN_WAVE,
        telemetry.SPAN_DECISION,
        telemetry.SPAN_CHAT,
        telemetry.SPAN_EMBEDDINGS,
        telemetry.SPAN_EVALUATION,
        telemetry.SPAN_REFLECTION,
        telemetry.EVENT_EVALUATION,
    ) == (
        "invoke_workflow {type}",
        "mull.wave",
        "mull.decision",
        "chat {model}",
        "embeddings {model}",
        "evaluate {criteria}",
        "mull.reflect",
        "gen_ai.evaluation.result",
    )
