"""Recording what a run is held to, whatever the rules and presets are later."""

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.checks import prepare_reflection
    from reflection.critique.loop import Reflection, warnings
    from workflows import failures
    from workflows.timeouts import LOCAL


async def prepare(state: Reflection) -> None:
    """Look up complexity and criteria, and warn of settings that bring little.

    Raises ApplicationError where the worker does not have a guardrail that the request names.
    """
    for each in warnings(state.request):
        state.warn(each)
    try:
        found = await workflow.execute_local_activity(
            prepare_reflection,
            state.request,
            start_to_close_timeout=LOCAL,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
        state.warn("the query's complexity could not be looked at")
        return
    state.criteria = found.criteria
    if state.request.reflect and not state.request.synthesis_follows:
        state.complexity = found.complexity
    if found.unknown:
        raise ApplicationError(
            f"guardrails: the worker has no {', '.join(found.unknown)}",
            type=failures.INVALID_REQUEST,
            non_retryable=True,
        )
