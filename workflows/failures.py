"""What a failed call or a wrong request means for a run."""

from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.exceptions import TimeoutError as CallTimedOut

INVALID_REQUEST = "InvalidRequest"


def no_request(field: str) -> ApplicationError:
    """Make the failure of a workflow that was started without its one JSON object."""
    return ApplicationError(
        f'no request: start this workflow with one JSON object, such as {{"{field}": "..."}}',
        type=INVALID_REQUEST,
        non_retryable=True,
    )


def refusal(reason: str) -> ApplicationError:
    """Make the refusal of an update, which changes nothing."""
    return ApplicationError(reason, type="Refused", non_retryable=True)


def permanent(error: ActivityError) -> ApplicationError | None:
    """Make the failure of the run, if the cause holds for every call like it; else None."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.non_retryable:
        return ApplicationError(cause.message, type=cause.type, non_retryable=True)
    return None


def explain(error: ActivityError) -> str:
    """Say in one line why a call failed for good after its retries."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return f"{cause.type}: {cause.message}"
    return "no reply in time" if isinstance(cause, CallTimedOut) else str(cause or error)


def attempts(error: ActivityError, most: int) -> int:
    """Count the attempts of a call that failed for good: one where it could never work."""
    return 1 if permanent(error) is not None else most
