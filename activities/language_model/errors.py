"""Convert providers' errors to ours.

LiteLLM changes statuses (Anthropic's 529 becomes 500, a 401 that says "rate limited" 429), so the
HTTP response at the end of the chain of causes is read first, then the exception itself. Errors
never contain a key or the prompt.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from activities.language_model.port import (
    ModelError,
    PermanentModelError,
    SampleError,
    TransientModelError,
)

LINE_CHARACTERS = 300
READ_CHARACTERS = 1_000
MOST_CHARACTERS = 20_000
ECHO_CHARACTERS = 12
SHORTEST_ECHO = 4
KEY_CHARACTERS = 8
LONGEST_WAIT_SECONDS = 60.0
PERMANENT_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 410, 413, 414, 415, 422})

_CLASS_NAMES = re.compile(
    r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?: Error)?\s*[:-](?:\s+|$))+"
)
_JSON_MESSAGE = re.compile(r'"message":\s*"((?:[^"\\]|\\.)*)"')
_JSON_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|[nrt"\\/])')
_ADDRESS_OF_OBJECT = re.compile(r"\s*(?:ssl:)?<[^<>]* object at 0x[0-9a-f]+>")
_KEY = re.compile(
    r"\b(?:sk|gsk|xai|hf|pplx|nvapi|ghp|fw|r8)[-_][\w*-]{6,}"
    r"|\bA(?:Iza|KIA)[\w-]{12,}"
    r"|\beyJ[\w-]+(?:\.[\w-]+)*"
    r"|(?<=Bearer )\S+"
    r"|(?<=//)[^/@\s]+(?=@)"
    r"|\w*\*{3,}\w*"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{24,}\b"
)


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


def one_line(text: str, prompt: str = "", secrets: Iterable[str] = ()) -> str:
    """Shorten a provider's message to one line of at most 300 characters that anyone may read.

    Keys, and 8 or more of their characters in a row, spaced or not, become `[key]`; 12 or more
    letters in a row from the prompt become `[prompt]`.
    """
    said = text[:MOST_CHARACTERS].partition("Traceback (most recent call last)")[0]
    message = " ".join(said.split())
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        message = message.replace(secret, "[key]")
    message = _KEY.sub("[key]", _plain(message))
    for secret in filter(None, secrets):
        message = _masked(message, secret, "[key]", KEY_CHARACTERS, lambda letter: letter > " ")
    # Only letters are compared: providers echo a prompt quoted, escaped and cut.
    line = _masked(message, prompt, "[prompt]", ECHO_CHARACTERS, str.isalnum)
    line = line or "the provider gave no reason"
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"


def _plain(message: str) -> str:
    said = _CLASS_NAMES.sub("", message.strip())
    found = _JSON_MESSAGE.search(said) if said.startswith("{") else None
    said = _JSON_ESCAPE.sub(_unescape, found[1] if found else said)
    return " ".join(_ADDRESS_OF_OBJECT.sub("", said).split())[:READ_CHARACTERS]


def _unescape(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return escape[0][1] if escape[0][1] in '"\\/' else " "


def _masked(message: str, hidden: str, mask: str, least: int, counts: Callable[[str], bool]) -> str:
    """Mask each part of `hidden` of at least `least` letters that count, or all of a short one."""
    asked = "".join(letter.lower()[:1] for letter in hidden if counts(letter))
    places = [at for at, letter in enumerate(message) if counts(letter)]
    said = "".join(message[at].lower()[:1] for at in places)
    window = max(SHORTEST_ECHO, min(least, len(asked)))
    echoed: set[int] = set()
    for start in range(len(said) - window + 1):
        if said[start : start + window] in asked:
            echoed.update(range(places[start], places[start + window - 1] + 1))
    masked = ""
    for at, letter in enumerate(message):
        if at not in echoed:
            masked += letter
        elif at - 1 not in echoed:
            masked += mask
    return masked


def read_error(
    error: BaseException, prompt: str, secrets: Collection[str], answered: int | None = None
) -> ModelError:
    """Return the ModelError for an exception; `answered` is the status of the response, if any.

    The message is one line of at most 300 characters without the secrets or the prompt. A missing
    key, with any status, and a 401, with any text, are of the kind `AuthenticationError`.
    """
    chain = list(causes(error))
    answered = answered or _answered_status(chain)
    own, name = status_of(error), type(error).__name__
    status = own if name == "RateLimitError" and answered == 400 else answered or own
    if status is not None and (status != own or name in _SAYS_LITTLE):
        name = _CLASS_OF_STATUS.get(status, name)
    codes = {code for link in chain if isinstance(code := _code(link), str)}
    said = str(error)
    line = one_line(said, prompt, secrets)
    if status == 401 or (status not in PERMANENT_STATUSES and _NO_KEY.search(said)):
        return PermanentModelError(line, "AuthenticationError", status)
    if name == "ContentPolicyViolationError" or codes & _FILTERED:
        return SampleError(
            line, "ContentPolicyViolationError", status, finish_reason="content_filter"
        )
    if "insufficient_quota" in codes or "insufficient_quota" in said:
        return PermanentModelError(line, "insufficient_quota", status)
    if status in PERMANENT_STATUSES:
        return PermanentModelError(line, name, status)
    if _NOT_INSTALLED.search(said):
        return PermanentModelError(line, "ImportError", status)
    return TransientModelError(line, name, status, _wait(chain))


def status_of(error: BaseException) -> int | None:
    """Return `status_code` as an HTTP status, or None: for some providers it is a word."""
    try:
        status = int(str(getattr(error, "status_code", "")))
    except ValueError:
        return None
    return status if 100 <= status <= 599 else None


def retry_after_seconds(value: str, now: datetime) -> float | None:
    """Convert a Retry-After header, seconds or an HTTP date, to 0 to 60 seconds, or None."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            then = parsedate_to_datetime(value)
        except ValueError:
            return None
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        seconds = (then - now).total_seconds()
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, then its cause, and so on, up to the first cause."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _answered_status(chain: list[BaseException]) -> int | None:
    """Read the status of a real response: httpx's or OpenAI's. LiteLLM makes others up."""
    for link in reversed(chain):
        if type(link).__module__.partition(".")[0] in {"httpx", "openai"}:
            response = getattr(link, "response", None)
            return status_of(response) if response is not None else None
    return None


def _code(error: BaseException) -> object:
    body = getattr(error, "body", None)
    inner = body.get("code") if isinstance(body, Mapping) else None
    return inner or vars(error).get("code")


def _wait(chain: list[BaseException]) -> float | None:
    for link in chain:
        for holder in (getattr(link, "response", None), link):
            headers = getattr(holder, "headers", None) or getattr(
                holder, "litellm_response_headers", None
            )
            value = headers.get("retry-after") if isinstance(headers, Mapping) else None
            if value is not None:
                return retry_after_seconds(str(value), datetime.now(UTC))
    return None
