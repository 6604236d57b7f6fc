"""A memory that outlives runs: the reflections of a task family, by scope."""

from pydantic import ValidationError
from pydantic_core import to_json
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.memory import RememberTask
    from mull.agents.memory import SemanticMemory, SharedMemory
    from mull.agents.request import MemoryRequest
    from workflows.base import refusal
    from workflows.calls import require

LONGEST_HISTORY = 2_000
REMEMBERED_BYTES = 20_000


@workflow.defn(failure_exception_types=[ValidationError])
class MemoryWorkflow:
    """Hold at most 3 reflections in each scope, and never end."""

    def __new__(cls, *inputs: object) -> "MemoryWorkflow":
        """Reject a start without a valid request, which would fail every workflow task."""
        require(MemoryRequest, inputs, '{"name": "..."}')
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: MemoryRequest) -> None:
        """Begin with what an earlier history held."""
        self._held = request.held

    @workflow.run
    async def run(self, request: MemoryRequest) -> None:
        """Hold on, in one history after the other."""
        await workflow.wait_condition(
            lambda: (
                workflow.info().is_continue_as_new_suggested()
                or workflow.info().get_current_history_length() >= LONGEST_HISTORY
            )
        )
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(request.model_copy(update={"held": self._held}))

    @workflow.query(description="The reflections, by scope")
    def memory(self) -> SharedMemory:
        """Return all that is held."""
        return self._held

    @workflow.update(description="Add a reflection, once; the oldest of its scope makes room")
    def remember(self, given: RememberTask) -> SemanticMemory:
        """Add a reflection, and return what its scope holds."""
        self._held = self._held.remember(given.scope, given.reflection)
        return self._held.of(given.scope)

    @remember.validator
    def _takes_reflection(self, given: RememberTask) -> None:
        if not isinstance(given, RememberTask):
            form = '{"name": "...", "scope": "...", "reflection": {"text": "..."}}'
            raise refusal(f"give one JSON object, such as {form}")
        if len(to_json(given)) > REMEMBERED_BYTES:
            raise refusal(f"a reflection takes at most {REMEMBERED_BYTES:,} bytes")

    @workflow.update(description="Forget what a scope holds, or everything without one")
    def clear(self, scope: str | None = None) -> None:
        """Forget."""
        self._held = self._held.clear(scope)

    @clear.validator
    def _takes_scope(self, scope: str | None = None) -> None:
        if not (scope is None or isinstance(scope, str)):
            raise refusal("give nothing, or the name of a scope")
