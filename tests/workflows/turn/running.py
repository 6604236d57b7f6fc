"""Turns with a scripted model, and with tools that note what they were asked."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from temporalio.client import Client

from activities.language_model.port import Abilities, LanguageModel
from activities.tools import tool
from activities.tools.activity import ToolActivities
from activities.tools.functions import functions_of
from mull.turn.approval import ToolRule
from mull.turn.result import ToolTurnResult
from tests import conftest
from tests.conftest import Handle, begin
from tests.scripted import ScriptedModel

ANSWER = "It is 4."


class Noted:
    """Tools that note each call of them: `look` reads, `write` writes, and `slow` sleeps.

    A place looks as `texts` say, or blue; there is none whose name begins with "bad".
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self.texts = texts or {}
        self.calls: list[str] = []

    def tools(self) -> ToolActivities:
        @tool(read_only=True, idempotent=True, keys=("place:{place}",))
        async def look(place: str) -> str:
            """Look at a place."""
            self.calls.append(f"look {place}")
            if place.startswith("bad"):
                raise ValueError(f"there is no {place}")
            return self.texts.get(place, f"{place} is blue")

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


def served(
    client: Client,
    model: LanguageModel,
    tools: Noted | ToolActivities | None = None,
    *,
    native: bool = True,
    effort: bool = False,
    **options: Any,
) -> AbstractAsyncContextManager[None]:
    called = tools.tools() if isinstance(tools, Noted) else tools or Noted().tools()
    able = Abilities(tools=native, effort=effort)
    options = {"called": called, "abilities": lambda _: able} | options
    return conftest.served(client, model, ["mull", "llm", "tools"], **options)


def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a key for whoever connects from now on."""
    given = base64.b64encode(b"k" * 32).decode()
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", f"main-1:{given}")


async def start(client: Client, **fields: Any) -> Handle:
    return await begin(client, {"message": "How much is it?", **fields}, "ToolTurnWorkflow")


async def permit(handle: Handle, call: int, *, allow: bool = True, **more: Any) -> dict[str, Any]:
    seen = await handle.query("progress")
    [asked] = (one for one in seen["questions"] if one["call"] == call)
    word = {name: asked[name] for name in ("call", "run_id", "digest")}
    await handle.execute_update("permit", {**word, "allow": allow, **more})
    return word


async def ended(handle: Handle) -> ToolTurnResult:
    return ToolTurnResult.model_validate(await conftest.ended(handle))


async def run(
    client: Client,
    model: LanguageModel,
    tools: Noted | ToolActivities | None = None,
    /,
    **fields: Any,
) -> ToolTurnResult:
    async with served(client, model, tools):
        return await ended(await start(client, **fields))


async def called(
    client: Client, steps: Sequence[Any], rules: Sequence[ToolRule] = (), **fields: Any
) -> tuple[ToolTurnResult, list[str]]:
    """Run once to the end with tools that note their calls; return these too."""
    noted = Noted()
    noted.rules = rules
    return await run(client, ScriptedModel(step=steps), noted, **fields), noted.calls


async def until_at(handle: Handle, step: str, calls: int = 0) -> Any:
    """Wait until a turn is at this step with so many calls, and return its progress."""
    return await conftest.until(
        lambda: handle.query("progress"),
        lambda seen: seen["step"] == step and len(seen["calls"]) >= calls,
    )
