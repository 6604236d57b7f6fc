"""The filters of the list of runs."""

from datetime import UTC, datetime

import pytest

from commands.web.runs import CHOICES, filter_of, tone_of
from mull import RequestError

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
ALL = "ExecutionStatus != 'ContinuedAsNew'"


@pytest.mark.parametrize(
    ("chosen", "part"),
    [
        ({"command": "ask"}, "WorkflowType = 'SelfConsistencyWorkflow'"),
        ({"outcome": "completed"}, "ExecutionStatus = 'Completed'"),
        ({"outcome": "timed_out"}, "ExecutionStatus = 'TimedOut'"),
        ({"outcome": "cancelled"}, "ExecutionStatus = 'Canceled'"),
        ({"outcome": "no_consensus"}, "MullStopReason = 'no_consensus'"),
        ({"uncertainty": "high"}, "MullUncertainty = 'high'"),
        ({"waiting": "1"}, "MullNeedsReview = true AND ExecutionStatus = 'Running'"),
        ({"model": " openai/gpt-5 "}, "MullModel STARTS_WITH 'openai/gpt-5'"),
        ({"since": "week"}, "StartTime > '2026-03-01T12:00:00+00:00'"),
    ],
)
def test_what_is_chosen_is_a_filter_of_search_attributes(chosen: dict[str, str], part: str) -> None:
    """Without a choice all runs are listed, once each."""
    assert filter_of(chosen, NOW) == f"{ALL} AND {part}"
    assert filter_of(dict.fromkeys(chosen, ""), NOW) == ALL


@pytest.mark.parametrize(
    ("status", "reason", "doubt", "tone"),
    [
        ("running", None, None, "running"),
        ("failed", None, None, "bad"),
        ("completed", "rule", None, "good"),
        ("completed", "rule", "fewer than three votes", "warning"),
        ("completed", "no_consensus", None, "warning"),
        ("completed", "evaluation_failed", None, "bad"),
        ("completed", "completed", None, "good"),
        ("completed", "completed", "2 of 4 runs without a result", "warning"),
        ("completed", "skipped", None, "plain"),
        ("completed", "idle", None, "plain"),
    ],
)
def test_a_row_has_the_tone_of_the_run_s_own_page(
    status: str, reason: str | None, doubt: str | None, tone: str
) -> None:
    """A batch without a fault is good, and a session that ended is neither."""
    assert tone_of({"status": status, "MullStopReason": reason, "doubt": doubt}) == tone


@pytest.mark.parametrize("name", [*CHOICES, "model", "since"])
@pytest.mark.parametrize("value", ["x' OR '1'='1", "a\\", 'a"', "\x00", "x" * 161])
def test_no_value_gets_into_the_filter_unseen(name: str, value: str) -> None:
    """The refusal names the field, and does not quote the value."""
    with pytest.raises(RequestError) as refused:
        filter_of({name: value}, NOW)

    assert value not in str(refused.value)
    assert refused.value.field == name
