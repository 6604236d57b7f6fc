"""What a provider's response holds, and whether it is a reply at all."""

from typing import Any, NoReturn

from activities.language_model import ModelReply, SampleError, TransientModelError
from reflection.usage import Spending


def read_reply(
    response: Any,
    model: str,
    provider: str,
    cost_usd: float | None,
    left_out: tuple[str, ...],
    *,
    keep_cut: bool = False,
) -> ModelReply:
    """Read a chat completion in OpenAI's form.

    Raises TransientModelError where it holds no choice, SampleError where its only choice was
    filtered, refused, empty, or cut off (unless what came of it shall be kept).
    """
    spending = read_spending(response, cost_usd)
    if not response.choices:
        raise TransientModelError("the provider replied without any choice", "EmptyReply")
    choice = response.choices[0]
    _check(choice, spending, keep_cut=keep_cut)
    return ModelReply(
        text=choice.message.content,
        model=model,
        provider=provider,
        finish_reason=choice.finish_reason,
        spending=spending,
        response_id=response.id or None,
        left_out=left_out,
    )


def read_spending(response: Any, cost_usd: float | None) -> Spending:
    """Read the tokens of one call. LiteLLM counts 0 where the provider counted none at all."""
    usage = getattr(response, "usage", None)
    sent, received = (
        getattr(usage, "prompt_tokens", None),
        getattr(usage, "completion_tokens", None),
    )
    if not sent and not received:
        return Spending(calls=1)
    details = getattr(usage, "prompt_tokens_details", None)
    return Spending(
        calls=1,
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=getattr(details, "cached_tokens", None),
        cost_usd=cost_usd,
    )


def _check(choice: Any, spending: Spending, *, keep_cut: bool) -> None:
    def refuse(kind: str, line: str) -> NoReturn:
        raise SampleError(line, kind, spending=spending, finish_reason=choice.finish_reason)

    if choice.finish_reason == "content_filter":
        refuse("ContentPolicyViolationError", "the provider's content filter took the reply")
    if _refusal(choice.message):
        refuse("Refusal", "the model refused to answer")
    empty = not (choice.message.content or "").strip()
    if choice.finish_reason == "length" and (empty or not keep_cut):
        refuse("CutOff", f"the reply was cut off after {spending.output_tokens or 'its'} tokens")
    if empty:
        refuse("EmptyReply", "the reply is empty")


def _refusal(message: Any) -> Any:
    fields = getattr(message, "provider_specific_fields", None) or {}
    return getattr(message, "refusal", None) or fields.get("refusal")
