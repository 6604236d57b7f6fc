"""What an exception of a provider's client means, told without importing any client.

LiteLLM changes statuses (Anthropic's 529 becomes 500, a 401 that says "rate limited" 429), so
the HTTP answer at the bottom of the chain of causes is read first, then the exception itself.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from activities.language_model import (
    ModelError,
    PermanentModelError,
    SampleError,
    TransientModelError,
)
from activities.provider.redaction import one_line

LONGEST_WAIT_SECONDS = 60.0
PERMANENT_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 410, 413, 414, 415, 422})

_CLASS_OF_STATUS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    402: "PaymentRequiredError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    413: "RequestTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    529: "OverloadedError",
}
_SAYS_LITTLE = {"APIError", "APIStatusError", "APIConnectionError", "InternalServerError"}
_FILTERED = {"content_filter", "content_policy_violation"}
_NO_KEY = re.compile(
    r"missing credentials|missing \w+ api key|_API_KEY\W* is not set|unable to locate credentials",
    re.IGNORECASE,
)
_NOT_INSTALLED = re.compile(r"No module named '[\w.]+'")


@dataclass(frozen=True)
class Failure:
    """What an exception says: its class, HTTP status, the provider's codes, and the wait."""

    kind: str
    status: int | None
    codes: frozenset[str]
    text: str
    retry_after: float | None


def read_error(error: BaseException, prompt: str, secrets: Collection[str]) -> ModelError:
    """Tell which kind of ModelError it is.

    The message is one line of at most 300 characters without the secrets or the prompt. A missing
    key, whatever its status, is of the kind `AuthenticationError`.
    """
    failure = read_failure(error)
    line = one_line(failure.text, prompt, secrets)
    if _is_filtered(failure):
        return SampleError(
            line, "ContentPolicyViolationError", failure.status, finish_reason="content_filter"
        )
    if permanent := _permanent_kind(failure):
        return PermanentModelError(line, permanent, failure.status)
    return TransientModelError(line, failure.kind, failure.status, failure.retry_after)


def read_failure(error: BaseException) -> Failure:
    """Read the exception and what it was caused by."""
    chain = list(_causes(error))
    answered = _answered_status(chain)
    own = status_of(error)
    name = type(error).__name__
    status = own if name == "RateLimitError" and answered == 400 else answered or own
    if status is not None and (status != own or name in _SAYS_LITTLE):
        name = _CLASS_OF_STATUS.get(status, name)
    codes = frozenset(code for each in chain if isinstance(code := _code(each), str))
    return Failure(name, status, codes, str(error), _wait(chain))


def status_of(error: BaseException) -> int | None:
    """Read `status_code` as an HTTP status, or None: some providers put a word there."""
    try:
        status = int(str(getattr(error, "status_code", "")))
    except ValueError:
        return None
    return status if 100 <= status <= 599 else None


def retry_after_seconds(value: str, now: datetime) -> float | None:
    """Read a Retry-After header, seconds or an HTTP date, as 0 to 60 seconds."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)


def _seconds_until(date: str, now: datetime) -> float:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()


def _permanent_kind(failure: Failure) -> str | None:
    if "insufficient_quota" in failure.codes or "insufficient_quota" in failure.text:
        return "insufficient_quota"
    if failure.status in PERMANENT_STATUSES:
        return failure.kind
    if _NO_KEY.search(failure.text):
        return "AuthenticationError"
    return "ImportError" if _NOT_INSTALLED.search(failure.text) else None


def _is_filtered(failure: Failure) -> bool:
    return failure.kind == "ContentPolicyViolationError" or bool(failure.codes & _FILTERED)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _answered_status(chain: list[BaseException]) -> int | None:
    """LiteLLM makes responses up; those that httpx or OpenAI's client raised with are real."""
    for each in reversed(chain):
        if type(each).__module__.partition(".")[0] in {"httpx", "openai"}:
            response = getattr(each, "response", None)
            return status_of(response) if response is not None else None
    return None


def _code(error: BaseException) -> object:
    body = getattr(error, "body", None)
    inner = body.get("code") if isinstance(body, Mapping) else None
    return inner or getattr(error, "code", None)


def _wait(chain: list[BaseException]) -> float | None:
    for each in chain:
        for holder in (getattr(each, "response", None), each):
            headers = getattr(holder, "headers", None) or getattr(
                holder, "litellm_response_headers", None
            )
            value = headers.get("retry-after") if isinstance(headers, Mapping) else None
            if value is not None:
                return retry_after_seconds(str(value), datetime.now(UTC))
    return None
