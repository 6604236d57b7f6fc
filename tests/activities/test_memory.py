"""What adds to a memory that runs share, where its workflow is too busy to look."""

from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.memory import MemoryActivities, RememberTask
from mull.agents.memory import Reflection

TASK = RememberTask(name="m", scope="s", reflection=Reflection(text="Count."))


class Refusing:
    """A server that answers an update by an error of this type."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def execute_update_with_start_workflow(self, *_: Any, **__: Any) -> Any:
        cause = ApplicationError("said", type=self._kind, non_retryable=True)
        raise WorkflowUpdateFailedError(cause)


@pytest.mark.parametrize(("kind", "final"), [("UnprocessedUpdate", False), ("Refused", True)])
async def test_only_a_refusal_is_final(kind: str, final: bool) -> None:
    """What no worker looked at in time is tried again."""
    client: Any = Refusing(kind)

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(MemoryActivities(client).remember_reflection, TASK)

    assert (raised.value.type, raised.value.non_retryable) == (kind, final)
