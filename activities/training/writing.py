"""Write with a served model: all texts that wait for it at once, each with its own random seed."""

import math
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from activities.training.weights import longest, token_ids

MOST_CHOICES, MOST_STOPS = 16, 4


class RefusedError(Exception):
    """A request that can't be served, with the HTTP status and OpenAI's code for the reason."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Message(BaseModel):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Chat(BaseModel):
    """The fields of OpenAI's request that are served. Any other field is refused."""

    model_config = ConfigDict(extra="forbid")

    model: str
    messages: list[Message] = Field(min_length=1)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    stop: str | Annotated[list[str], Field(max_length=MOST_STOPS)] | None = None
    stream: Literal[False] | None = None

    @property
    def stops(self) -> list[str]:
        """The texts before which a reply ends."""
        found = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [stop for stop in found if stop]


@dataclass
class Asked:
    """A waiting request: its prompt as text, its future reply, and whether its client left."""

    chat: Chat
    text: str
    made: Future[dict[str, Any]] = field(default_factory=Future)
    left: threading.Event = field(default_factory=threading.Event)


class Row:
    """A text that is being written: its number in its request, and its own random generator."""

    def __init__(self, asked: Asked, number: int, ids: list[int], room: int, device: Any) -> None:
        chat, self.asked, self.number, self.ids = asked.chat, asked, number, ids
        self.most = min(chat.max_completion_tokens or chat.max_tokens or room, room)
        # Once it is written: the text, its tokens, and whether it came to its end.
        self.text, self.tokens, self.ended = "", 0, False
        seed = secrets.randbits(32) if chat.seed is None else chat.seed + number
        self.chance = torch.Generator(device).manual_seed(seed % 2**63)

    def draw(self, logits: torch.Tensor) -> torch.Tensor:
        """Add noise to the logits of the next token, so that the highest one is a sample.

        Sample from the model's own distribution, as in training, at this row's temperature.
        """
        if not self.asked.chat.temperature:
            return logits
        logits = torch.log_softmax(logits.float() / self.asked.chat.temperature, -1)
        if self.asked.chat.top_p < 1:
            likely, order = logits.exp().sort(descending=True)
            beyond = likely.cumsum(-1) - likely >= self.asked.chat.top_p
            logits = logits.index_fill(0, order[beyond], -math.inf)
        return logits - torch.empty_like(logits).exponential_(generator=self.chance).log()


def _generate(
    tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, rows: Sequence[Row]
) -> None:
    """Write all rows at once, each to its own end."""
    width = max(len(row.ids) for row in rows)
    # The tokens that end a text: the tokenizer's, and those that the model's folder names.
    named = model.generation_config.eos_token_id
    ends = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
    padding = tokenizer.pad_token_id
    # Other settings of the model's folder would change the samples: a penalty, beams.
    model.generation_config = GenerationConfig(eos_token_id=[*ends], pad_token_id=padding)

    def text_of(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    def sample(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.stack([row.draw(logits) for row, logits in zip(rows, scores, strict=True)])

    def stopping(ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        for row, answer in zip(rows, ids[:, width:].tolist(), strict=True):
            if row.tokens:
                continue
            text = text_of(answer) if row.asked.chat.stops else ""
            row.ended = answer[-1] in ends or any(stop in text for stop in row.asked.chat.stops)
            if row.ended or len(answer) >= row.most or row.asked.left.is_set():
                row.tokens = len(answer)
        return torch.tensor([bool(row.tokens) for row in rows], device=ids.device)

    missing = [width - len(row.ids) for row in rows]
    ids = [[padding] * count + row.ids for count, row in zip(missing, rows, strict=True)]
    mask = [[0] * count + [1] * (width - count) for count in missing]
    with torch.inference_mode():
        made = model.generate(
            torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            max_new_tokens=max(row.most for row in rows),
            logits_processor=[sample],
            stopping_criteria=[stopping],
        )
    for row, answer in zip(rows, made[:, width:].tolist(), strict=True):
        text = text_of(answer[: row.tokens])
        found = [text.index(stop) for stop in row.asked.chat.stops if stop in text]
        row.text = text[: min(found, default=len(text))]


def _fit(model: PreTrainedModel, rows: list[Row]) -> bool:
    """Tell whether rows can be written at once, padded to the end of the longest one.

    Only a table of positions limits that.
    """
    rotary = any(name.endswith("rotary_emb") for name, _ in model.named_modules())
    width, most = max(len(row.ids) for row in rows), max(row.most for row in rows)
    return rotary or width + most <= longest(model)


def _reply(model: str, rows: list[Row]) -> dict[str, Any]:
    """Build OpenAI's reply."""
    choices = [
        {
            "index": row.number,
            "message": {"role": "assistant", "content": row.text},
            "finish_reason": "stop" if row.ended else "length",
        }
        for row in rows
    ]
    count = {
        "prompt_tokens": len(rows[0].ids),
        "completion_tokens": sum(row.tokens for row in rows),
    }
    usage = count | {"total_tokens": sum(count.values())}
    return {"model": model, "choices": choices, "usage": usage}


def write(
    tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, together: Sequence[Asked]
) -> list[dict[str, Any] | RefusedError]:
    """Write OpenAI's replies; refuse a request whose messages are too long."""
    most, of_each = longest(model), list[list[Row] | RefusedError]()
    for asked in together:
        ids, chat = token_ids(tokenizer, asked.text), asked.chat
        numbers, room = range(chat.n or 1), most - len(ids)
        if room < 1 or not ids:
            said = f"The messages have {len(ids)} tokens; {chat.model} reads {most}."
            of_each.append(RefusedError(400, "context_length_exceeded", said))
        else:
            of_each.append([Row(asked, number, ids, room, model.device) for number in numbers])
    rows = [row for found in of_each if isinstance(found, list) for row in found]
    for group in [rows] if rows and _fit(model, rows) else [[row] for row in rows]:
        _generate(tokenizer, model, group)
    return [
        _reply(asked.chat.model, found) if isinstance(found, list) else found
        for asked, found in zip(together, of_each, strict=True)
    ]
