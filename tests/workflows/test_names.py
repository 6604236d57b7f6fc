"""The public names: histories, dashboards and other clients outlive the code behind them."""

from pydantic import ValidationError

import telemetry
from activities.sampling import SamplingActivities
from activities.server import ServerActivities
from workflows.self_consistency import SelfConsistencyWorkflow


def names_of(kind: type, marker: str) -> list[str]:
    found = [getattr(each, marker, None) for each in vars(kind).values()]
    return sorted(each.name for each in found if each is not None)


def test_workflow_types_queries_and_updates() -> None:
    """The workflow type and its handlers have the names that other clients call."""
    definition = vars(SelfConsistencyWorkflow)["__temporal_workflow_definition"]

    assert definition.name == "SelfConsistencyWorkflow"
    assert sorted(definition.queries) == ["decisions", "progress"]
    assert sorted(definition.updates) == ["add_answer", "finish_now"]


def test_only_malformed_requests_fail_a_run_by_themselves() -> None:
    """A nondeterministic run waits for mended code: its error is no reason to fail."""
    definition = vars(SelfConsistencyWorkflow)["__temporal_workflow_definition"]

    assert list(definition.failure_exception_types) == [ValidationError]


def test_activity_types() -> None:
    """Histories name activities by these types."""
    marker = "__temporal_activity_definition"

    assert names_of(SamplingActivities, marker) == ["compare_meaning", "sample_answer"]
    assert names_of(ServerActivities, marker) == ["registered_search_attributes"]


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


def test_spans() -> None:
    """Dashboards and queries on traces name these spans."""
    assert (
        telemetry.SPAN_RUN,
        telemetry.SPAN_WAVE,
        telemetry.SPAN_DECISION,
        telemetry.SPAN_CHAT,
    ) == ("invoke_workflow {type}", "mull.wave", "mull.decision", "chat {model}")
