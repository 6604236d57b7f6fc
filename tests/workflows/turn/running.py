"""Turns with a scripted model, and with tools that note what they were asked."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

import worker
from activities.language_model.port import Abilities, ModelCall, ModelError, ModelReply
from activities.tools import tool
from activities.tools.activity import ToolActivities
from activities.tools.functions import functions_of
from mull.run import Spending
from mull.turn import midturn
from mull.turn.approval import ToolRule
from mull.turn.result import ToolTurnResult
from mull.turn.tools import AskedCall
from tests.conftest import STRICT, begin
from tests.patience import PATIENCE

Handle = WorkflowHandle[Any, Any]
Said = str | ModelError | list[tuple[str, dict[str, Any]]] | Callable[[ModelCall], Any]

ANSWER = "It is 4."
SPENT = Spending(calls=1, input_tokens=80, output_tokens=20, cached_tokens=0, cost_usd=0.001)
SUMMARY = "What was said before: little."


class ScriptedTurns:
    """Reply to each step with the next line: an answer, calls of tools, an error, or a function.

    Reflections have lines of their own. A step that is not foreseen fails the run, loudly.
    """

    def __init__(
        self,
        steps: Sequence[Said],
        reflections: Sequence[Said] = (),
        delay: float = 0,
        spending: Spending = SPENT,
    ) -> None:
        self._lines: dict[str, list[Said]] = {
            "step": list(steps), "reflection": list(reflections), "summary": [SUMMARY] * 40
        }  # fmt: skip
        self._delay, self._spending = delay, spending
        self.calls: list[ModelCall] = []

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the script. Raises the script's errors."""
        self.calls.append(call)
        await asyncio.sleep(self._delay)
        lines = self._lines[kind_of(call)]
        said = lines.pop(0) if lines else ModelError(f"no line for a {kind_of(call)}")
        said = said(call) if callable(said) else said
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, ModelError):
            raise said
        asked = [] if isinstance(said, str) else said
        return ModelReply(
            text=said if isinstance(said, str) else "",
            model="scripted/model",
            provider="scripted",
            finish_reason="tool_calls" if asked else "stop",
            calls=tuple(
                AskedCall(id=f"{len(self.calls)}-{place}", name=name, arguments=json.dumps(given))
                for place, (name, given) in enumerate(asked)
            ),
            spending=self._spending,
        )

    def shown(self, kind: str) -> list[ModelCall]:
        """List the calls of this kind: step, reflection, or summary."""
        return [call for call in self.calls if kind_of(call) == kind]


def kind_of(call: ModelCall) -> str:
    """Tell a step, a reflection and a summary apart by what the model is shown."""
    first = call.messages[0]
    if first["content"] == midturn.SYSTEM:
        return "reflection"
    return "summary" if first["content"].startswith("Summarize the earlier part") else "step"


class Noted:
    """Tools that note each call of them: `look` reads, `write` writes, `slow` sleeps, both wait."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def tools(self) -> ToolActivities:
        """The tools of a worker."""

        @tool(read_only=True, idempotent=True, keys=("place:{place}",))
        async def look(place: str) -> str:
            """Look at a place."""
            self.calls.append(f"look {place}")
            if place.startswith("bad"):
                raise ValueError(f"there is no {place}")
            return f"{place} is blue"

        @tool()
        async def write(text: str) -> str:
            """Write a text."""
            self.calls.append(f"write {text}")
            return f"wrote {text}"

        @tool(read_only=True, keys=("slow:{seconds}",))
        async def slow(seconds: float) -> str:
            """Sleep."""
            self.calls.append(f"slow {seconds:g}")
            await asyncio.sleep(seconds)
            return f"slept {seconds:g}"

        return ToolActivities(functions_of(look, write, slow), rules=self.rules)

    rules: Sequence[ToolRule] = ()


@asynccontextmanager
async def served(
    client: Client,
    model: ScriptedTurns,
    tools: Noted | ToolActivities | None = None,
    *,
    native: bool = True,
    effort: bool = False,
) -> AsyncIterator[None]:
    """Serve every queue that a turn needs."""
    called = tools.tools() if isinstance(tools, Noted) else tools or Noted().tools()
    workers = worker.build(
        client,
        ["mull", "llm", "tools"],
        model,
        called=called,
        abilities=lambda _: Abilities(tools=native, effort=effort),
        **STRICT,
    )
    async with AsyncExitStack() as stack:
        for each in workers:
            await stack.enter_async_context(each)
        yield


def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a key for whoever connects from now on."""
    given = base64.b64encode(b"k" * 32).decode()
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", f"main-1:{given}")


async def start(client: Client, **fields: Any) -> Handle:
    """Start a turn as any client would, with one JSON object."""
    return await begin(client, {"message": "How much is it?", **fields}, "ToolTurnWorkflow")


async def permit(handle: Handle, call: int, *, allow: bool = True, **more: Any) -> dict[str, Any]:
    """Say a word on a call as the turn shows it, and return the word."""
    seen = await handle.query("progress")
    [asked] = (one for one in seen["questions"] if one["call"] == call)
    word = {name: asked[name] for name in ("call", "run_id", "digest")}
    await handle.execute_update("permit", {**word, "allow": allow, **more})
    return word


async def ended(handle: Handle, seconds: float = 30) -> ToolTurnResult:
    return ToolTurnResult.model_validate(await asyncio.wait_for(handle.result(), seconds))


async def run(
    client: Client,
    model: ScriptedTurns,
    tools: Noted | ToolActivities | None = None,
    /,
    **fields: Any,
) -> ToolTurnResult:
    """Run once to the end."""
    async with served(client, model, tools):
        return await ended(await start(client, **fields))


async def until(handle: Handle, step: str, calls: int = 0) -> Any:
    """Wait until a turn is at this step with so many calls, and return its progress."""
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = await handle.query("progress")
            if seen["step"] == step and len(seen["calls"]) >= calls:
                return seen
            await asyncio.sleep(0.05)
