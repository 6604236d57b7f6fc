"""The port to language models, its errors, and a call of one from an activity.

ModelError                     a call failed
├── TransientModelError        it may work the next time: Temporal retries it
├── SampleError                this one reply is lost (content filter, cut off)
└── PermanentModelError        no call like it can work (no key, no such model)
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from pydantic import Field
from temporalio.exceptions import ApplicationError

from activities.server import heartbeating
from reflection.run import Record, Spending

TASK_QUEUE = "mull-llm"


class ModelCall(Record):
    """One call of a model: the prompt, and its bounds.

    `model` is a LiteLLM name, or None for the worker's own. `reply_schema` is a JSON schema for
    the reply, if the model can be held to one. `labels` mark the call's span and are never sent.
    `keep_cut` accepts a reply that was cut off (finish reason `length`), else a SampleError.
    """

    model: str | None
    prompt: str
    temperature: float
    seed: int | None
    max_output_tokens: int
    timeout_seconds: float
    reply_schema: dict[str, Any] | None = None
    labels: dict[str, str | int] = Field(default_factory=dict)
    keep_cut: bool = False


class ModelReply(Record):
    """The reply: its text, the model that wrote it, and what it cost.

    `left_out` names the parameters that were not sent since the provider does not know them.
    """

    text: str
    model: str
    provider: str
    finish_reason: str
    spending: Spending
    response_id: str | None = None
    left_out: tuple[str, ...] = ()


class ModelError(Exception):
    """A call failed.

    `kind` is the provider's class name, `status` the HTTP status or None, and `retry_after` the
    seconds that the server asked to wait. `spending` is what the call cost nevertheless.
    """

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


class SampleError(ModelError):
    """This one reply is lost: to the content filter, or since it was cut off."""


class PermanentModelError(ModelError):
    """No call like this one can work: authentication, permission, no such model, a bad request."""


class LanguageModel(Protocol):
    """Answers prompts."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make one call, once. Raises one of the three kinds of ModelError, and nothing else."""
        ...


async def ask(model: LanguageModel, call: ModelCall) -> ModelReply:
    """Make one call from within an activity.

    Raises SampleError as it is, and ApplicationError for every other ModelError: non-retryable if
    no call like it can work.
    """
    async with heartbeating():
        try:
            return await model.complete(call)
        except SampleError:
            raise
        except ModelError as error:
            wait = error.retry_after
            raise ApplicationError(
                str(error),
                type=error.kind,
                non_retryable=isinstance(error, PermanentModelError),
                next_retry_delay=timedelta(seconds=wait) if wait is not None else None,
            ) from None


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
