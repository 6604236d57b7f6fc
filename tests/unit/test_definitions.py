"""What the SDK makes of the workflows' classes: it drops a validator or a type in silence."""

import inspect

import pytest
from temporalio.workflow import _Definition

import worker
from workflows.base import RunWorkflow, Workflow


@pytest.mark.parametrize("kind", worker.WORKFLOWS)
def test_every_update_has_its_validator_and_a_concrete_type(kind: type) -> None:
    """No update is taken unchecked, and what it is given can be decoded."""
    updates = _Definition.must_from_class(kind).updates

    assert "finish_now" in updates
    for update in updates.values():
        assert update.validator is not None
        assert update.arg_types
        assert not any(inspect.isabstract(given) for given in update.arg_types)
        assert "~" not in str(update.arg_types)


@pytest.mark.parametrize("kind", worker.WORKFLOWS)
def test_no_workflow_overrides_a_handler(kind: type) -> None:
    """An update that is decorated again would lose its validator, and an overridden one be ignored.

    `run` and `__init__` stand in each workflow, and every hook that the base needs is there.
    """
    handlers = {"progress", "decisions", "review", "finish_now", "_takes_review", "_takes_finish"}
    hooks = {"_progress", "_sheet"}
    if issubclass(kind, RunWorkflow):
        hooks |= {"_refuse_review", "_replace", "_numbers", "_updates"}

    assert issubclass(kind, Workflow)
    assert not handlers & set(vars(kind))
    assert {"run", "__init__", *hooks} <= set(vars(kind))
