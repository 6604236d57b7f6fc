"""Serves tuned reflectors by OpenAI's interface, and scores.

A model is named by its folder in MULL_ARTIFACTS, a run's tuned reflector also by the run's id, and
a base model as the worker names it, for example by its Hugging Face name. Texts that wait for the
same model are written together. A text with a seed does not depend on the texts before it (nor, in
float32, on those beside it).
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from pydantic import ValidationError
from transformers import PreTrainedModel, PreTrainedTokenizerBase, logging
from transformers.utils.chat_template_utils import render_jinja_template

from activities.checks import read_apart
from activities.training import weights
from activities.training.artifacts import ADAPTER, run_folder
from activities.training.port import VARIABLE, Scores, ScoreTask
from activities.training.writing import Asked, Chat, RefusedError, write
from mull.request import explain

MOST_KEPT = 3
CONFIGS = ADAPTER, "config.json"
MOST_BYTES = 4 << 20
MOST_WAITING = 1_000
Loaded = tuple[PreTrainedTokenizerBase, PreTrainedModel]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Models:
    """The models under a folder, and those named `bases`; keeps the last few that were used."""

    def __init__(self, root: Path, bases: Sequence[str]) -> None:
        self._root, self._bases = root.resolve(), frozenset(bases)
        self._kept: OrderedDict[object, Loaded] = OrderedDict()

    def names(self) -> list[str]:
        """List the names of the models that write."""
        found = [
            path
            for name in CONFIGS
            for depth in ("*", "*/*")
            for path in self._root.glob(f"{depth}/{name}")
        ]
        inside = [path for path in found if path.resolve().is_relative_to(self._root)]
        folders = [path.parent.relative_to(self._root) for path in inside if not _scores(path)]
        runs = [unquote(folder.parent.name) for folder in folders if folder.name == "reflector"]
        return sorted({*map(str, folders), *runs} - {"."} | self._bases)

    def load(self, name: str, kind: Callable[[Path | str], PreTrainedModel]) -> Loaded:
        """Load a model. Raises RefusedError if there is no model of this name, and WeightsError."""
        place = self._place(name)
        config = _config(Path(place))
        # A run that starts again may put another model into the same folder.
        key = kind, place, config.stat().st_mtime_ns if config else 0
        if key not in self._kept:
            if kind is weights.load_policy and config and _scores(config):
                raise RefusedError(404, "model_not_found", f"{name} is a reward model.")
            while len(self._kept) >= MOST_KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = weights.load_tokenizer(place), kind(place).eval()
        self._kept.move_to_end(key)
        return self._kept[key]

    def _place(self, name: str) -> Path | str:
        if folder := self._folder(name):
            self._expect_base(name, folder)
            return folder
        if name in self._bases:
            return name
        raise RefusedError(404, "model_not_found", f"There is no model {name} in {VARIABLE}.")

    def _folder(self, name: str) -> Path | None:
        # Not every name is a valid path.
        with contextlib.suppress(OSError, ValueError):
            for folder in (self._root / name, run_folder(self._root, name) / "reflector"):
                inside = folder.resolve()
                if inside.is_relative_to(self._root) and _config(inside):
                    return inside
        return None

    def _expect_base(self, name: str, folder: Path) -> None:
        """Refuse an adapter unless its base is a whole model in the folder, or one of the bases."""
        base = weights.base_of(folder)
        # A base may be named by another path to the same folder.
        known = {str(Path(one).resolve()) for one in self._bases if Path(one).exists()}
        if base is None or base in self._bases | known:
            return
        place = Path(base)
        inside = place.is_absolute() and place.is_relative_to(self._root)
        if not inside or (place / ADAPTER).exists():
            said = f"The base model of {name} is not in {VARIABLE}: name it with --base."
            raise RefusedError(404, "model_not_found", said)


def _config(folder: Path) -> Path | None:
    """Find the file that describes an adapter, or otherwise a whole model."""
    return next((path for name in CONFIGS if (path := folder / name).is_file()), None)


def _scores(config: Path) -> bool:
    """Tell by its configuration if a model scores instead of writing."""
    try:
        told = json.loads(config.read_text())
        kinds = told.get("architectures") or ()
        return told.get("task_type") == "SEQ_CLS" or any("Classification" in kind for kind in kinds)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False


async def formatted(
    name: str, tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]]
) -> str:
    """Format a conversation in a process of its own, so that a slow template does not block others.

    Raises RefusedError if the template takes longer than five seconds, or fails.
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
    """Answers requests; one thread uses all models, one at a time."""

    def __init__(self, models: Models) -> None:
        self._models, self._waiting = models, deque[Asked]()
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
        shared = {"object": "model", "created": 0, "owned_by": "mull"}
        listed = [{"id": name, **shared} for name in names]
        return web.json_response({"object": "list", "data": listed})

    async def complete(self, request: web.Request) -> web.Response:
        """Write a chat completion."""
        chat = Chat.model_validate_json(await request.read())
        messages = [message.model_dump() for message in chat.messages]
        tokenizer, _ = await self._run(self._models.load, chat.model, weights.load_policy)
        asked = Asked(chat, await formatted(chat.model, tokenizer, messages))
        if len(self._waiting) >= MOST_WAITING:
            said = f"{MOST_WAITING} texts wait already: ask again later."
            raise RefusedError(429, "too_many_requests", said)
        self._waiting.append(asked)
        try:
            # It may be written with those that came before it.
            self._thread.submit(self._write_waiting)
            made = await asyncio.wrap_future(asked.made)
        finally:
            # The client may have left: others should not wait for its text.
            asked.left.set()
        told = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time())}
        return web.json_response({"object": "chat.completion"} | told | made)

    async def score(self, request: web.Request) -> web.Response:
        """Score reflections."""
        task = ScoreTask.model_validate_json(await request.read())
        name, asked = task.reward_model, [{"role": "user", "content": task.prompt}]
        tokenizer, _ = await self._run(self._models.load, name, weights.load_reward_model)
        scores = await self._run(self._score, task, await formatted(name, tokenizer, asked))
        return web.Response(text=scores.model_dump_json(), content_type="application/json")

    async def _run(self, work: Callable[..., Any], *given: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def _score(self, task: ScoreTask, text: str) -> Scores:
        tokenizer, model = self._models.load(task.reward_model, weights.load_reward_model)
        pairs = [(task.prompt, reflection) for reflection in task.reflections]
        return Scores(scores=tuple(weights.score(model, tokenizer, pairs, lambda *_: text)))

    def _write_waiting(self) -> None:
        """Write the texts that wait for the same model as the first one, if any still wait."""
        together, choices = list[Asked](), 0
        for asked in [*self._waiting]:
            first = together[0] if together else asked
            more = asked.chat.n or 1
            if asked.chat.model == first.chat.model and choices + more <= weights.MOST_ROWS:
                choices += more
                self._waiting.remove(asked)
                if asked.made.set_running_or_notify_cancel():
                    together.append(asked)
        if not together:
            return
        try:
            model = self._models.load(together[0].chat.model, weights.load_policy)
            replies: Sequence[dict[str, Any] | Exception] = write(*model, together)
        except Exception as error:  # goes to each of the requests
            replies = [error] * len(together)
        for asked, reply in zip(together, replies, strict=True):
            if isinstance(reply, Exception):
                asked.made.set_exception(reply)
            else:
                asked.made.set_result(reply)


@web.middleware
async def answer_errors(request: web.Request, handler: Answer) -> web.StreamResponse:
    """Answer errors in OpenAI's form."""
    try:
        return await handler(request)
    except (RefusedError, web.HTTPException) as error:
        status, code, said = error.status, getattr(error, "code", "http_error"), str(error)
    except weights.WeightsError as error:
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
    logging.disable_progress_bar()
    server = Server(Models(Path(os.environ[VARIABLE]), bases))
    runner = web.AppRunner(server.application(), handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    await asyncio.Event().wait()
