"""Runs whose model's address takes no connection: few are made, and each run says what to do."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

import worker
from activities.language_model.layers import PacedModel
from activities.language_model.port import LanguageModel, ModelCall, ModelReply
from commands.follow import Wanted, follow
from commands.loops import loop_of
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.request import MultiPathRequest
from mull.sampling.request import SelfConsistencyRequest
from mull.turn.request import ToolTurnRequest
from tests.conftest import begin
from tests.patience import PATIENCE

MODEL = "openai/anything"
ASK = SelfConsistencyRequest(question="How much?", model=MODEL)
FEW: dict[str, Any] = {"model": MODEL, "max_attempts": 2}
OTHERS: list[Any] = [
    ReflectOnResultRequest(query="How are tides made?", draft="By the moon.", **FEW),
    MultiPathRequest(prompt="Write double(x).", mode="code", **FEW),
    ToolTurnRequest(message="Hello", tools=(), **FEW),
]


class Counted:
    """A model that counts the calls that are sent."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.calls = 0

    async def complete(self, call: ModelCall) -> ModelReply:
        self.calls += 1
        return await self._model.complete(call)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address that stays bound, so that nobody else takes it, and listens to nothing."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{bound.getsockname()[1]}"
        monkeypatch.setenv("OPENAI_API_BASE", f"http://{at}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "opensesame-1234567890")
        yield at


@pytest_asyncio.fixture
async def counted(
    client: Client,
    address: str,  # noqa: ARG001 - where it is sought
) -> AsyncIterator[Counted]:
    from activities.language_model.litellm_model import LiteLLMModel

    model = Counted(LiteLLMModel(None))
    async with worker.running(worker.build(client, ["mull", "llm"], PacedModel(model))):
        yield model


async def test_a_closed_door_is_knocked_on_by_one(
    client: Client, counted: Counted, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples at their defaults make five connections together, and every run ends by itself.

    Each names the address and what to start, with the exit code of a run without any reply.
    """

    async def end(request: Any, identity: str, said: str) -> None:
        loop = loop_of(request)
        handle = client.get_workflow_handle(identity, result_type=loop.result)
        assert await follow(handle, loop, request, Wanted()) == 1
        printed = capsys.readouterr()
        assert said in " ".join(f"{printed.err} {printed.out}".split())

    said = f"connections failed: nothing listens at {address}: start the server of {MODEL}"
    await end(ASK, (await begin(client, ASK, loop_of(ASK).workflow)).id, f"5 {said}")
    assert counted.calls == 5

    begun = [(await begin(client, each, loop_of(each).workflow)).id for each in OTHERS]
    for request, identity in zip(OTHERS, begun, strict=True):
        await end(request, identity, f"2 {said}")
    assert counted.calls <= 5 + 2 * len(OTHERS)


async def test_a_run_that_waits_is_cancelled(client: Client, counted: Counted) -> None:
    """A call that waits for an address hears of it as one that was sent would."""
    handle = await begin(client, ASK, loop_of(ASK).workflow)
    while not counted.calls:
        await asyncio.sleep(0.05)

    await handle.cancel()

    with pytest.raises(WorkflowFailureError) as raised:
        await asyncio.wait_for(handle.result(), PATIENCE)
    assert isinstance(raised.value.cause, CancelledError)
