"""One call of a model for a node, and what is recorded of every reply alike."""

from typing import Any, NamedTuple

from temporalio import activity

from activities.asking import ask
from activities.language_model import LanguageModel, ModelCall, SampleError
from reflection.multipath.state import Node
from reflection.request import Record
from reflection.usage import Spending


class Receipt(Record):
    """Which model replied, what was left out of the call, and what it cost."""

    model: str | None = None
    finish_reason: str | None = None
    left_out: tuple[str, ...] = ()
    attempts: int = 1
    spending: Spending


class Replied(Record):
    """A reply; `error` says why it can't be used, and `unreadable` that asking again may help."""

    error: str | None = None
    unreadable: bool = False
    receipt: Receipt


class AgentTask(Record):
    """What every question has: the run's prompt, and the bounds of the call."""

    prompt: str
    model: str | None
    max_output_tokens: int
    timeout_seconds: float


class Heard(NamedTuple):
    """The text of a reply, or None where it can't be had, as `error` says."""

    text: str | None
    error: str | None
    receipt: Receipt


async def hear(
    model: LanguageModel, node: Node | str, task: AgentTask, prompt: str, **more: Any
) -> Heard:
    """Ask once, with `more` fields of the call. Raises as `ask` does, but for a SampleError."""
    labels: dict[str, str | int] = {"mull.node": node, "mull.attempt": activity.info().attempt}
    index = getattr(task, "index", None)
    call = ModelCall(
        **{
            "model": task.model,
            "prompt": prompt,
            "temperature": 0.0,
            "seed": 0,
            "max_output_tokens": task.max_output_tokens,
            "timeout_seconds": task.timeout_seconds,
            "labels": labels if index is None else labels | {"mull.draft.index": index},
            **more,
        }
    )
    try:
        reply = await ask(model, call)
    except SampleError as error:
        lost = _receipt(call.model, error.finish_reason, (), error.spending)
        return Heard(None, f"{error.kind}: {error}", lost)
    return Heard(
        reply.text,
        None,
        _receipt(reply.model, reply.finish_reason, reply.left_out, reply.spending),
    )


def _receipt(
    model: str | None, finish_reason: str | None, left_out: tuple[str, ...], spending: Spending
) -> Receipt:
    return Receipt(
        model=model,
        finish_reason=finish_reason,
        left_out=left_out,
        attempts=activity.info().attempt,
        spending=spending,
    )
