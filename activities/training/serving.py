"""The program of a process that serves tuned reflectors by OpenAI's interface, and scores.

A model is named by its folder in MULL_ARTIFACTS, a run's tuned reflector also by the run's id, and
a base model as this program's arguments name it, which may be a Hugging Face name. One text is
written at a time; with a seed it is the same whatever was written before.

The first argument is the number of the listening socket; the process ends with its standard input.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import torch
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import PreTrainedModel, PreTrainedTokenizerBase, logging
from transformers.utils.chat_template_utils import render_jinja_template

from activities.checks import read_apart
from activities.training.artifacts import run_folder
from activities.training.port import VARIABLE, Scores, ScoreTask
from activities.training.stage import end_with_input
from activities.training.weights import (
    WeightsError,
    load_policy,
    load_reward_model,
    load_tokenizer,
    longest,
    score,
    token_ids,
)
from reflection.request import explain

MOST_KEPT = 3
MOST_BYTES = 4 << 20
REFLECTOR = "reflector"
Loaded = tuple[PreTrainedTokenizerBase, PreTrainedModel]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RefusedError(Exception):
    """A request that can't be served, with the HTTP status and OpenAI's code that say why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Message(BaseModel):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Chat(BaseModel):
    """What is served of OpenAI's request. Any other field is refused."""

    model_config = ConfigDict(extra="forbid")

    model: str
    messages: list[Message] = Field(min_length=1)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: Literal[1] | None = None
    stream: Literal[False] | None = None


class Models:
    """The models under a folder, and those named `bases`; the last few that were used are kept."""

    def __init__(self, root: Path, bases: Sequence[str]) -> None:
        self._root, self._bases = root.resolve(), frozenset(bases)
        self._kept: OrderedDict[object, Loaded] = OrderedDict()

    def names(self) -> list[str]:
        """List the models that write."""
        found = [*self._root.glob("*/config.json"), *self._root.glob("*/*/config.json")]
        inside = [path for path in found if path.resolve().is_relative_to(self._root)]
        folders = [path.parent.relative_to(self._root) for path in inside if not _scores(path)]
        runs = [unquote(folder.parent.name) for folder in folders if folder.name == REFLECTOR]
        return sorted({*map(str, folders), *runs} - {"."} | self._bases)

    def load(self, name: str, kind: Callable[[Path | str], PreTrainedModel]) -> Loaded:
        """Load a model. Raises RefusedError where there is none of this name, and WeightsError."""
        place = self._place(name)
        config = Path(place) / "config.json"
        # A run that begins anew may put another model in the same folder.
        made = config.stat().st_mtime_ns if config.is_file() else 0
        key = kind, place, made
        if key not in self._kept:
            if kind is load_policy and made and _scores(config):
                raise RefusedError(404, "model_not_found", f"{name} is a reward model.")
            while len(self._kept) >= MOST_KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = load_tokenizer(place), kind(place).eval()
        self._kept.move_to_end(key)
        return self._kept[key]

    def _place(self, name: str) -> Path | str:
        # A name that can't be a path's is no folder's.
        with contextlib.suppress(OSError, ValueError):
            for folder in (self._root / name, run_folder(self._root, name) / REFLECTOR):
                inside = folder.resolve()
                if inside.is_relative_to(self._root) and (inside / "config.json").is_file():
                    return inside
        if name in self._bases:
            return name
        raise RefusedError(404, "model_not_found", f"There is no model {name} in {VARIABLE}.")


def _scores(config: Path) -> bool:
    """Tell by its configuration if a model scores, and does not write."""
    try:
        kinds = json.loads(config.read_text()).get("architectures")
        return any("Classification" in kind for kind in kinds or ())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False


async def formatted(
    name: str, tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]]
) -> str:
    """Format a conversation in a process of its own, so that no template holds others up.

    Raises RefusedError where the template takes longer than five seconds, or fails.
    """
    given: dict[str, Any] = {key: str(token) for key, token in tokenizer.special_tokens_map.items()}
    given["add_generation_prompt"] = True
    try:
        given["chat_template"] = tokenizer.get_chat_template()
        [text], _ = await read_apart(partial(render_jinja_template, [messages], **given))
        return str(text)
    except (RuntimeError, ValueError) as error:
        said = f"The chat template of {name} can't format the messages: {error}"
        raise RefusedError(400, "invalid_value", said) from None


class Server:
    """Answers requests; one thread has all models, and does one thing at a time."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._thread = ThreadPoolExecutor(1)

    def application(self) -> web.Application:
        """Make the application."""
        app = web.Application(middlewares=[answer_errors], client_max_size=MOST_BYTES)
        app.router.add_get("/v1/models", self.list_models)
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_post("/score", self.score)
        return app

    async def list_models(self, _: web.Request) -> web.Response:
        """List the models that write."""
        names = await asyncio.to_thread(self._models.names)
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "mull"} for name in names
        ]
        return web.json_response({"object": "list", "data": listed})

    async def complete(self, request: web.Request) -> web.Response:
        """Write a chat completion."""
        chat = Chat.model_validate_json(await request.read())
        left, messages = threading.Event(), [message.model_dump() for message in chat.messages]
        try:
            tokenizer, _ = await self._run(self._models.load, chat.model, load_policy)
            text = await formatted(chat.model, tokenizer, messages)
            made = await self._run(self._write, chat, text, left)
        finally:
            # Whoever asked may have gone: nobody else should wait for that.
            left.set()
        told = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time())}
        return web.json_response({"object": "chat.completion"} | told | made)

    async def score(self, request: web.Request) -> web.Response:
        """Score reflections."""
        task = ScoreTask.model_validate_json(await request.read())
        name, asked = task.reward_model, [{"role": "user", "content": task.prompt}]
        tokenizer, _ = await self._run(self._models.load, name, load_reward_model)
        scores = await self._run(self._score, task, await formatted(name, tokenizer, asked))
        return web.Response(text=scores.model_dump_json(), content_type="application/json")

    async def _run(self, work: Callable[..., Any], *given: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def _score(self, task: ScoreTask, text: str) -> Scores:
        tokenizer, model = self._models.load(task.reward_model, load_reward_model)
        pairs = [(task.prompt, reflection) for reflection in task.reflections]
        return Scores(scores=tuple(score(model, tokenizer, pairs, lambda *_: text)))

    def _write(self, chat: Chat, text: str, left: threading.Event) -> dict[str, Any]:
        tokenizer, model = self._models.load(chat.model, load_policy)
        ids = torch.tensor([token_ids(tokenizer, text)], dtype=torch.long, device=model.device)
        asked, room = ids.shape[1], longest(model) - ids.shape[1]
        if room < 1 or not asked:
            said = f"The messages have {asked} tokens; {chat.model} reads {longest(model)}."
            raise RefusedError(400, "context_length_exceeded", said)

        def stopping(rows: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            return torch.tensor([left.is_set()], device=rows.device)

        # The tokens that end a text: the tokenizer's, and those that the model's folder names.
        named = model.generation_config.eos_token_id
        ends = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
        torch.manual_seed(secrets.randbits(32) if chat.seed is None else chat.seed)
        # What is sampled from is what the model says, as in training: not its 50 likeliest tokens.
        sampling = {"temperature": chat.temperature, "top_p": chat.top_p, "top_k": 0}
        with torch.inference_mode():
            row = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=min(chat.max_completion_tokens or chat.max_tokens or room, room),
                eos_token_id=[*ends],
                pad_token_id=tokenizer.pad_token_id,
                stopping_criteria=[stopping],
                **({"do_sample": True} | sampling if chat.temperature else {"do_sample": False}),
            )[0, asked:]
        content = str(tokenizer.decode(row, skip_special_tokens=True))
        finish = {
            "index": 0,
            "message": {"role": "assistant", "content": content},
            "finish_reason": "stop" if int(row[-1]) in ends else "length",
        }
        count = {"prompt_tokens": asked, "completion_tokens": len(row)}
        usage = count | {"total_tokens": sum(count.values())}
        return {"model": chat.model, "choices": [finish], "usage": usage}


@web.middleware
async def answer_errors(request: web.Request, handler: Answer) -> web.StreamResponse:
    """Answer errors in OpenAI's form."""
    try:
        return await handler(request)
    except (RefusedError, web.HTTPException) as error:
        status, code, said = error.status, getattr(error, "code", "http_error"), str(error)
    except WeightsError as error:
        status, code, said = 400, "model_broken", str(error)
    except ValidationError as error:
        status, code, said = 400, "invalid_value", explain(error)
    except Exception as error:
        status, code, said = 500, "internal_error", str(error)
    said = next(iter(said.splitlines()), code)
    kind = "invalid_request_error" if status < 500 else "server_error"
    told = {"message": said, "type": kind, "param": None, "code": code}
    return web.json_response({"error": told}, status=status)


async def serve(listening: socket.socket, bases: Sequence[str]) -> None:
    """Serve until the process ends."""
    server = Server(Models(Path(os.environ[VARIABLE]), bases))
    runner = web.AppRunner(server.application(), handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.disable_progress_bar()
    threading.Thread(target=end_with_input, daemon=True).start()
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]))
