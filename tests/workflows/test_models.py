"""Models that think, and models whose address takes no connection."""

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.exceptions import CancelledError

import worker
from activities.language_model.layers import ObservedModel, PacedModel
from commands.follow import follow
from commands.options import Wanted
from mull.agents.request import ReflexionRequest
from mull.critique.request import ReflectOnResultRequest
from mull.handle import Run
from mull.loops import loop_of
from mull.multipath.request import MultiPathRequest
from mull.sampling.request import SelfConsistencyRequest
from mull.turn.request import ToolTurnRequest
from tests.conftest import begin, failure, until
from tests.scripted import ScriptedModel
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint
from workflows.calls import call_times

FEW: dict[str, Any] = {"max_attempts": 1}
REQUESTS: list[tuple[Any, dict[str, Any], int]] = [
    (
        SelfConsistencyRequest,
        {"question": "How?", "answers": "llm", "max_responses": 2, "rule": "fixed", **FEW},
        1_024,
    ),
    (ReflectOnResultRequest, {"query": "Why?", "min_complexity": 0, **FEW}, 4_096),
    (MultiPathRequest, {"prompt": "Write double(x).", **FEW}, 4_096),
    (ToolTurnRequest, {"message": "Hello", "tools": (), **FEW}, 4_096),
]


@pytest.mark.parametrize(("model", "thinks"), [("gpt-5-mini", True), ("gpt-4o-mini", False)])
async def test_defaults_are_those_of_the_model(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    spans: InMemorySpanExporter,
    model: str,
    thinks: bool,
) -> None:
    """Every call of every loop has room to think, or the number of its kind; and says which."""
    from activities.language_model.litellm_model import LiteLLMModel

    sent: list[Body] = []

    def replied(request: Body) -> Scripted:
        sent.append(request)
        # An answer of its own for each, so that two are compared.
        return Scripted(f'{{"reasoning": "", "answer": "{len(sent)}"}}')

    limits: dict[str, set[int]] = {}
    with ScriptedEndpoint(replied) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "opensesame-1234567890")
        made = LiteLLMModel(f"openai/{model}")
        served = worker.build(
            client,
            ["mull", "llm"],
            PacedModel(ObservedModel(made, None), f"openai/{model}"),
            abilities=made.abilities,
        )
        async with worker.running(served):
            for kind, fields, _ in REQUESTS:
                sent.clear()
                request = kind(**fields)
                loop = loop_of(request)
                handle = await begin(client, request, loop.workflow)
                typed = client.get_workflow_handle(handle.id, result_type=loop.result)
                result: Any = await typed.result()
                limits[kind.__name__] = {
                    each.get("max_completion_tokens") or each["max_tokens"] for each in sent
                }
                kept = getattr(result, "responses", ()) or getattr(result, "drafts", ())
                assert {each.max_output_tokens for each in kept} <= limits[kind.__name__]

    usual = {kind.__name__: {limit} for kind, _, limit in REQUESTS}
    usual["SelfConsistencyRequest"] |= {512}
    calls = [each for each in spans.get_finished_spans() if each.name.startswith("chat ")]
    told = {(each.attributes or {}).get("gen_ai.request.max_tokens") for each in calls}
    assert told == set().union(*limits.values())
    assert limits == ({name: {16_384} for name in usual} if thinks else usual)


def test_an_attempt_outlasts_the_longest_call() -> None:
    """The workflow does not know whether its model thinks, and has time for one that does."""
    given: list[tuple[float | None, list[int | None]]] = [
        (None, []), (None, [1_024]), (None, [32_768]), (None, [1, None]), (30, []),
    ]  # fmt: skip
    seconds = [
        call_times(client, 5, *limits)["start_to_close_timeout"].total_seconds()
        for client, limits in given
    ]

    assert seconds == [495, 135, 975, 495, 45]
    assert ReflexionRequest(environment="code", task="x").call_timeout_seconds is None


MODEL = "openai/anything"
ASK = SelfConsistencyRequest(question="How much?", model=MODEL)
TWICE: dict[str, Any] = {"model": MODEL, "max_attempts": 2}
OTHERS: list[Any] = [
    ReflectOnResultRequest(query="How are tides made?", draft="By the moon.", **TWICE),
    MultiPathRequest(prompt="Write double(x).", mode="code", **TWICE),
    ToolTurnRequest(message="Hello", tools=(), **TWICE),
]


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
) -> AsyncIterator[ScriptedModel]:
    from activities.language_model.litellm_model import LiteLLMModel

    model = ScriptedModel(each=LiteLLMModel(None).complete)
    async with worker.running(worker.build(client, ["mull", "llm"], PacedModel(model))):
        yield model


async def test_a_closed_door_is_knocked_on_by_one(
    client: Client, counted: ScriptedModel, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples at their defaults make five connections together, and every run ends by itself.

    Each names the address and what to start, with the exit code of a run without any reply.
    """

    async def end(request: Any, identity: str, said: str) -> None:
        loop = loop_of(request)
        assert await follow(Run[Any].of(client, loop, identity), request, Wanted()) == 1
        printed = capsys.readouterr()
        assert said in " ".join(f"{printed.err} {printed.out}".split())

    said = f"connections failed: nothing listens at {address}: start the server of {MODEL}"
    await end(ASK, (await begin(client, ASK, loop_of(ASK).workflow)).id, f"5 {said}")
    assert len(counted.calls) == 5

    begun = [(await begin(client, each, loop_of(each).workflow)).id for each in OTHERS]
    for request, identity in zip(OTHERS, begun, strict=True):
        await end(request, identity, f"2 {said}")
    assert len(counted.calls) <= 5 + 2 * len(OTHERS)


async def test_a_run_that_waits_is_cancelled(client: Client, counted: ScriptedModel) -> None:
    """A call that waits for an address hears of it as one that was sent would."""
    handle = await begin(client, ASK, loop_of(ASK).workflow)
    await until(lambda: counted.calls)

    await handle.cancel()

    await failure(handle, CancelledError)
