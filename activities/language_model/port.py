"""The port to language models, its errors, and a call of one from an activity.

ModelError                     a call failed
├── TransientModelError        it may work the next time: Temporal retries it
│   ├── NotYetError            the call was not made: it has to wait first
│   └── UnreachableError       the model's address can't be connected to
├── SampleError                this one reply is lost (content filter, cut off, empty)
└── PermanentModelError        a call like this can't work (no key, no such model)
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, Protocol, Self

from pydantic import Field, model_validator
from temporalio import activity
from temporalio.exceptions import ApplicationError

from mull import queues
from mull.connection import heartbeating
from mull.drafts import Receipt
from mull.request import CALL_SECONDS, OUTPUT_TOKENS, Record, SamplingOptions
from mull.run import Spending
from mull.turn.budget import Effort
from mull.turn.tools import AskedCall, Tool

TASK_QUEUE = queues.LLM
# Patterns for the models that requests may name, separated by commas.
MODELS = "MULL_MODELS"


def may_name(model: str, environment: Mapping[str, str]) -> bool:
    """Tell whether requests may name a model: MULL_MODELS allows it, or it is the worker's own."""
    own = (environment.get("MULL_MODEL"), environment.get("MULL_JUDGE_MODEL"))
    patterns = environment.get(MODELS, "*").split(",")
    return model in own or any(fnmatchcase(model, pattern.strip()) for pattern in patterns)


# Replies that say nothing, but may say something the next time: a call is made this often.
ASKED_AGAIN = frozenset({"EmptyReply", "BrokenToolCall"})
EMPTY_REPLIES = 3
# Seconds before the next attempt if the provider does not name them; they double each time.
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
UNREACHABLE = "Unreachable"


class Usual(NamedTuple):
    """The usual bounds of a kind of call for a model that does not think, and their field."""

    tokens: int = OUTPUT_TOKENS
    seconds: float = CALL_SECONDS
    field: str = "max_output_tokens"


OnText = Callable[[str], None]


# Called when a call is sent, since preparing it takes a while.
SENT: ContextVar[Callable[[], None]] = ContextVar("sent", default=lambda: None)


class ModelCall(Record):
    """One call of a model: the prompt, or messages in its place, and its bounds.

    `model` is a LiteLLM name, or None for the worker's own. Bounds that are not given are the
    `usual` ones, or more for a model that thinks. `reply_schema` is a JSON schema for
    the reply, if the model can be held to one. `labels` mark the call's span and are never sent.
    `keep_cut` accepts a reply that was cut off (finish reason `length`), else a SampleError.
    `messages` are in OpenAI's form; a model that takes no `tools` gets `without_tools` instead.
    A model with a setting for thinking thinks at `effort`, for about `thinking_tokens` more. If
    these are 0, `effort` is the least that there is, and is left out if it is refused.
    If its address can't be connected to, the call gives up after `max_attempts` failures, its own
    or other calls'. `on_text` gets the text so far while it is written, if the provider streams it;
    the text may begin again, and the reply is the same without it.
    """

    model: str | None
    prompt: str
    temperature: float
    seed: int | None
    max_output_tokens: int | None
    timeout_seconds: float | None
    usual: Usual = Usual()
    reply_schema: dict[str, Any] | None = None
    labels: dict[str, str | int] = Field(default_factory=dict)
    keep_cut: bool = False
    messages: tuple[dict[str, Any], ...] = ()
    without_tools: tuple[dict[str, Any], ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    options: SamplingOptions = SamplingOptions()
    effort: Effort | None = None
    thinking_tokens: int = 0
    max_attempts: int = 1
    on_text: OnText | None = Field(None, exclude=True, repr=False)

    @property
    def shown(self) -> str:
        """All texts that the model is shown, which errors must not repeat."""
        return "\n".join([self.prompt, *(one["content"] or "" for one in self.messages)])


# The fields of tasks that had defaults once, so that a history may lack them.
EARLIER: dict[str, Any] = {"framing": {}, "max_attempts": 5, "writer": None}


class Asked(Record):
    """Who is asked, and within which bounds: what the task of every call of a model begins with.

    Bounds that are None are the usual ones of the call. `error` is what was wrong with the last
    reply, if that could not be read.
    """

    model: str | None
    max_output_tokens: int | None
    timeout_seconds: float | None
    max_attempts: int
    temperature: float = 0.0
    seed: int | None = 0
    error: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_earlier(cls, task: Any) -> Any:
        """Take a task that an earlier version scheduled, without what was at its default."""
        return EARLIER | task if isinstance(task, dict) else task

    @classmethod
    def of(cls, request: Any, **more: Any) -> Self:
        """Make a task from the fields of a request that it requires, and from `more`.

        The request's `call_timeout_seconds` is the time-out, if it has one.
        """
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        given = {name: getattr(request, name) for name in required if hasattr(request, name)}
        seconds = getattr(request, "call_timeout_seconds", None)
        return cls(**{"timeout_seconds": seconds} | given | more)

    def call(self, prompt: str = "", **more: Any) -> ModelCall:
        """Make the call of it, with `more` fields; `labels` also get the number of the attempt."""
        labels = {**more.pop("labels", {}), "mull.attempt": activity.info().attempt}
        bounds = {name: getattr(self, name) for name in Asked.model_fields if name != "error"}
        return ModelCall(prompt=prompt, labels=labels, **bounds | more)


class Drawn(Asked):
    """A call whose reply is drawn at the temperature and seed of the request."""

    temperature: float
    seed: int | None


class ModelReply(Record):
    """The reply: its text or its tool calls, the model that wrote it, and what it cost.

    `left_out` names the parameters that were not sent: refused, or not listed for the model.
    """

    text: str
    model: str
    provider: str
    finish_reason: str
    spending: Spending
    max_output_tokens: int | None = None
    response_id: str | None = None
    left_out: tuple[str, ...] = ()
    calls: tuple[AskedCall, ...] = ()
    calls_left_out: int = 0


class Abilities(NamedTuple):
    """Whether a model takes tools, and a setting for its thinking, with its lowest budget.

    `unasked`: it thinks unless it is told the `least_effort`, or always if that is None.
    """

    tools: bool
    effort: bool
    least_thinking: int | None = None
    unasked: bool = False
    least_effort: Effort | None = None


class Heard(NamedTuple):
    """The text of a reply with its tool calls, or None with the reason in `error`.

    `calls_left_out` counts calls beyond the limit; `refusal` has the words of a refusal.
    """

    text: str | None
    error: str | None
    receipt: Receipt
    calls: tuple[AskedCall, ...] = ()
    calls_left_out: int = 0
    refusal: str = ""


class ModelError(Exception):
    """A call failed.

    `kind` is the provider's class name, `status` the HTTP status or None, and `retry_after` the
    seconds that the server asked to wait. `spending` is what the call cost nevertheless. `answered`
    is False if the model's address sent nothing.
    """

    answered = True

    def __init__(
        self,
        message: str,
        kind: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        *,
        spending: Spending | None = None,
        finish_reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind or type(self).__name__
        self.status = status
        self.retry_after = retry_after
        self.spending = spending or Spending(calls=1)
        self.finish_reason = finish_reason


class TransientModelError(ModelError):
    """It may work the next time."""


class NotYetError(TransientModelError):
    """The call was not made: the model takes no calls of this worker for `seconds`."""

    def __init__(self, seconds: float, unreachable: "UnreachableError | None" = None) -> None:
        line, kind = "the model was told to wait, and this call waits with it", "RateLimitError"
        if unreachable is not None:
            line, kind = f"{unreachable}; this call waits", UNREACHABLE
        super().__init__(line, kind, 429, seconds, spending=Spending(calls=0))


class UnreachableError(TransientModelError):
    """Connecting to `address`, a host and a port, failed; `last`: it is not tried again."""

    def __init__(self, message: str, address: str, *, last: bool = False) -> None:
        super().__init__(message, UNREACHABLE, spending=Spending(calls=0))
        self.address = address
        self.last = last


class SampleError(ModelError):
    """This one reply is lost: to the content filter, or since it was cut off, empty or too large.

    `refusal` is what the model said instead. It is content, so messages do not show it.
    """

    refusal = ""


class PermanentModelError(ModelError):
    """A call like this can't work: authentication, permission, no such model, a bad request."""


class LanguageModel(Protocol):
    """Answers prompts."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make one call. Raises one of the three kinds of ModelError, and nothing else."""
        ...


class Tries(NamedTuple):
    """How many attempts of an activity ended with a 429, without a call, and with an empty reply.

    The heartbeat's details pass them on to the next attempt.
    """

    limited: int = 0
    waiting: int = 0
    empty: int = 0


def calls_made() -> int:
    """Count the calls that this activity made, with the one of this attempt."""
    return activity.info().attempt - Tries(*activity.info().heartbeat_details).waiting


async def _ask(model: LanguageModel, call: ModelCall, empty_replies: int) -> ModelReply:
    limited, waiting, empty = tries = Tries(*activity.info().heartbeat_details)
    used = activity.info().attempt - 1 - limited - waiting
    if used >= call.max_attempts:
        line = f"{used} attempts ended without a result: the worker died or hung"
        raise ApplicationError(line, used, type="WorkerLost", non_retryable=True)
    async with heartbeating() as tell:
        tell(*tries)
        try:
            return await model.complete(call)
        except PermanentModelError as error:
            raise ApplicationError(str(error), type=error.kind, non_retryable=True) from None
        except ModelError as error:
            waits, again = isinstance(error, NotYetError), error.kind in ASKED_AGAIN
            refused = isinstance(error, TransientModelError) and error.status == 429
            last = not refused and used + 1 >= call.max_attempts
            last = last or (isinstance(error, UnreachableError) and error.last)
            if isinstance(error, SampleError) and (last or not again or empty + 1 >= empty_replies):
                raise
            activity.heartbeat(limited + (refused and not waits), waiting + waits, empty + again)
            # If the model's calls have to wait, they wait in line for their turn, and not here.
            wait, grows = error.retry_after, 0 if refused else max(used, 0)
            if wait is None:
                wait = min(FIRST_WAIT * 2.0**grows, LONGEST_WAIT)
            raise ApplicationError(
                str(error),
                calls_made() - waits,
                type=error.kind,
                non_retryable=last,
                # Temporal takes a delay of 0 for none given.
                next_retry_delay=timedelta(seconds=max(wait, 0.01)),
            ) from None


async def hear(model: LanguageModel, call: ModelCall, empty_replies: int = EMPTY_REPLIES) -> Heard:
    """Make one call from within an activity, which Temporal attempts as often as needed.

    Return a lost reply, or an empty one after so many, as an error to go on with. Raises
    ApplicationError for every other ModelError: non-retryable if a call like this can't work, or,
    with the number of calls as its detail, if `max_attempts` are used up. A 429 does not count.
    """
    try:
        reply = await _ask(model, call, empty_replies)
    except SampleError as error:
        receipt = Receipt(
            model=call.model,
            finish_reason=error.finish_reason,
            attempts=calls_made(),
            spending=error.spending,
        )
        return Heard(None, f"{error.kind}: {error}", receipt, refusal=error.refusal)
    receipt = Receipt(
        model=reply.model,
        finish_reason=reply.finish_reason,
        max_output_tokens=reply.max_output_tokens,
        left_out=reply.left_out,
        attempts=calls_made(),
        spending=reply.spending,
    )
    return Heard(reply.text, None, receipt, reply.calls, reply.calls_left_out)


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server that answers for one model name.

    `model` is the server's own name for it, and `api_base` ends in /v1. `free`: its calls cost 0
    dollars, otherwise their cost is unknown. It is trusted to hold a reply to a JSON schema.
    """

    model: str
    api_base: str
    api_key: str = field(repr=False)
    free: bool = False
