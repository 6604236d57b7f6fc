"""The one HTTP exchange of a call, bounded and never redirected, and the errors that it ends with.

LiteLLM changes statuses (Anthropic's 529 becomes 500, a 401 that says "rate limited" 429), so the
HTTP response at the end of the chain of causes is read first, then the exception itself. No error
has a key or the prompt in it.
"""

import json
import math
import re
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from activities.language_model.events import MOST_EVENTS_BYTES, gather, refuses_events, streamed
from activities.language_model.port import (
    ModelError,
    OnText,
    PermanentModelError,
    SampleError,
    TransientModelError,
)
from reflection.replies import MOST_REPLY_BYTES, is_heavy

MOST_ERROR_BYTES = 16 * 2**10
# LiteLLM takes up to 0.3 ms for a value that it does not expect, and a completion has a hundred.
MOST_VALUES = 2_000
MOST_NAME = 1_000
# Python reads no integer of over 4,300 digits.
MOST_DIGITS = 100
SHOWN_BYTES = 120
CODINGS = ("gzip", "deflate")
ENCODED = {"content-encoding", "content-length", "transfer-encoding"}


@dataclass
class Exchange:
    """What one call sent and got so far; `failed` says in words why nothing usable came.

    With `on_text` the reply is asked for in events, and the text so far is told as it grows.
    """

    on_text: OnText | None = None
    address: str = ""
    status: int = 0
    body: bytes = b""
    failed: str = ""

    def tell(self, line: str) -> str:
        """Say what came, with a provider's own words for an error status."""
        if self.failed or not self.status:
            return self.failed or line
        begins = self.body[:SHOWN_BYTES].decode(errors="replace").strip() or "an empty body"
        if self.status >= 400:
            return f"answered {self.status}: {line if self.body.strip() else begins}"
        return f"answered {self.status} with no usable reply: {begins}"


EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


async def bounded(
    request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]
) -> httpx.Response:
    """Send a request, and read the whole reply within its bounds; an error's body is cut.

    Raises ValueError for a redirect, a coding that was not asked for, and too large a reply.
    """
    exchange = EXCHANGE.get() or Exchange()
    exchange.address = str(request.url.copy_with(username=None, password=None, query=None))
    request.headers["Accept-Encoding"] = ", ".join(CODINGS)
    asked = streamed(request) if exchange.on_text else None
    try:
        response = await _answer(exchange, await send(asked or request))
        if asked and refuses_events(exchange.status, exchange.body):
            response = await _answer(exchange, await send(request))
    except Exception as error:
        broken = "broke off its reply" if exchange.status else "can't be reached"
        exchange.failed = str(error) if type(error) is ValueError else f"{broken}: {_why(error)}"
        raise
    kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in ENCODED]
    return httpx.Response(exchange.status, headers=kept, content=exchange.body, request=request)


async def _answer(exchange: Exchange, response: httpx.Response) -> httpx.Response:
    """Read what comes; a reply in events becomes one that came at once."""
    exchange.status, kind = response.status_code, response.headers.get("Content-Type", "")
    try:
        if exchange.on_text and exchange.status < 300 and kind.startswith("text/event-stream"):
            body = await gather(_pieces(response, MOST_EVENTS_BYTES), exchange.on_text)
            exchange.body = _usable(body, exchange.status)
            response.headers["Content-Type"] = "application/json"
        else:
            exchange.body = await _read(response)
    finally:
        await response.aclose()
    return response


def _why(error: Exception) -> str:
    """Say what broke: the system in its own words, a parser's error in ours."""
    if isinstance(error, UnicodeError):
        return "its headers can't be read"
    if isinstance(error, zlib.error):
        return "it can't be unpacked"
    if any(isinstance(cause, OSError) for cause in _causes(error)):
        return str(error) or type(error).__name__
    return "the reply is incomplete, or is not HTTP"


async def _read(response: httpx.Response) -> bytes:
    status, body = response.status_code, bytearray()
    most = MOST_REPLY_BYTES if status < 400 else MOST_ERROR_BYTES
    async for piece in _pieces(response, most):
        body += piece
    return _usable(bytes(body), status) if status < 400 else bytes(body[:most])


async def _pieces(response: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """Yield what comes, unpacked, and at most one byte more than is read."""
    status, coding = response.status_code, response.headers.get("Content-Encoding", "").lower()
    if 300 <= status < 400:
        host = ""
        with suppress(httpx.InvalidURL):
            host = httpx.URL(response.headers.get("Location", "")).host
        line = "and redirects are not followed: set the address that answers itself"
        raise ValueError(f"answered {status}, a redirect{f' to {host}' if host else ''}, {line}")
    if coding not in (*CODINGS, "identity", ""):
        raise ValueError(f"answered in the coding {coding[:20]!r}, which was not asked for")
    room = most + 1
    # 32 more than the largest window: a header of gzip or of zlib, whichever came.
    decoder = None if coding not in CODINGS else zlib.decompressobj(zlib.MAX_WBITS + 32)
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - of an async client
    async for chunk in response.stream:
        piece = decoder.decompress(chunk, room) if decoder else chunk[:room]
        room -= len(piece)
        yield piece
        if not room:
            return


def _usable(body: bytes, status: int) -> bytes:
    """Refuse a reply that is too large, and mend what LiteLLM can't read of one that was paid for.

    It would refuse all of it for a wrong usage, a text in parts or a tool call in another shape,
    and look for a long name in its list for seconds.
    """
    too_large = ValueError(f"answered {status} with more than a reply can be")
    if is_heavy(body):
        raise too_large
    try:
        whole = json.loads(body, parse_int=_integer)
    except (ValueError, RecursionError):
        return body
    if _has_too_many_values(whole):
        raise too_large
    if not isinstance(whole, dict):
        return body
    names = {name: whole[name] for name in ("id", "model") if isinstance(whole.get(name), str)}
    mended = {name: cut for name, given in names.items() if (cut := given[:MOST_NAME]) != given}
    if not _has_whole_counts(whole.get("usage")):
        mended["usage"] = None
    changed = _mend_messages(whole.get("choices"))
    return json.dumps(whole | mended).encode() if mended or changed else body


def _mend_messages(choices: object) -> bool:
    """Join texts in parts, and give each tool call its shape; tell whether anything was changed."""
    changed = False
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            continue
        if isinstance(parts := message.get("content"), list):
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            message["content"] = "".join(text for text in texts if isinstance(text, str))
            changed = True
        if calls := message.get("tool_calls"):
            listed = calls if isinstance(calls, list) else [calls]
            message["tool_calls"] = list(map(_shaped_call, listed))
            changed |= message["tool_calls"] != calls
    return changed


def _shaped_call(call: object) -> dict[str, object]:
    """Give a tool call the shape that it should have; what it says is kept as it is, as text."""
    known = call if isinstance(call, dict) else {"function": {"arguments": call}}
    function = known.get("function")
    function = function if isinstance(function, dict) else {"arguments": function}
    given, name, own = function.get("arguments"), function.get("name"), known.get("id")
    written = given if isinstance(given, str) else "" if given is None else json.dumps(given)
    shaped = {"name": name if isinstance(name, str) else "", "arguments": written}
    identity = {"id": own if isinstance(own, str) else None, "type": "function"}
    return {**known, **identity, "function": {**function, **shaped}}


def _integer(digits: str) -> int | float:
    """Read a whole number of any length."""
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


def _has_whole_counts(usage: object) -> bool:
    """Tell whether every count of tokens is a whole number, or is missing."""
    if not isinstance(usage, dict):
        return usage is None
    counts = [value for name, value in usage.items() if name.endswith("_tokens")]
    return all(count is None or type(count) is int for count in counts)


def _has_too_many_values(whole: object) -> bool:
    """Count the values of a reply; lists of tokens are free but in a completion."""
    left, count = [whole], 0
    free = set() if isinstance(whole, dict) and "choices" in whole else {int, float}
    while left and count <= MOST_VALUES:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list) and not set(map(type, value)) <= free:
            left += value
    return count + len(left) > MOST_VALUES


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
    """Mask what is `hidden`, and every piece of it with at least so many letters that count."""
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


def read_error(error: BaseException, prompt: str, secrets: Collection[str]) -> ModelError:
    """Return the ModelError for an exception.

    The message is one line of at most 300 characters without the secrets or the prompt. A missing
    key, whatever its status, is of the kind `AuthenticationError`.
    """
    chain = list(_causes(error))
    answered, own, name = _answered_status(chain), status_of(error), type(error).__name__
    status = own if name == "RateLimitError" and answered == 400 else answered or own
    if status is not None and (status != own or name in _SAYS_LITTLE):
        name = _CLASS_OF_STATUS.get(status, name)
    codes = {code for link in chain if isinstance(code := _code(link), str)}
    said = str(error)
    line = one_line(said, prompt, secrets)
    if name == "ContentPolicyViolationError" or codes & _FILTERED:
        return SampleError(
            line, "ContentPolicyViolationError", status, finish_reason="content_filter"
        )
    if "insufficient_quota" in codes or "insufficient_quota" in said:
        return PermanentModelError(line, "insufficient_quota", status)
    if status in PERMANENT_STATUSES:
        return PermanentModelError(line, name, status)
    if _NO_KEY.search(said):
        return PermanentModelError(line, "AuthenticationError", status)
    if _NOT_INSTALLED.search(said):
        return PermanentModelError(line, "ImportError", status)
    return TransientModelError(line, name, status, _wait(chain))


def status_of(error: BaseException) -> int | None:
    """Return `status_code` as an HTTP status, or None: some providers put a word there."""
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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
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
