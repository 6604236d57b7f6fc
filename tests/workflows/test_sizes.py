"""No event of a run passes 512 KiB, with every field of its request at its bound."""

import asyncio
import json
import random
import uuid
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

import worker
from activities.documents.retrieval import Retrieval
from activities.language_model.port import LanguageModel
from activities.tools import tool
from activities.tools.activity import ToolActivities
from activities.tools.functions import functions_of
from mull.batch.loop import Batch
from mull.batch.request import ID_BYTES, BatchRequest
from mull.connection import expanded
from mull.multipath.parts import Passage
from mull.run import Spending
from mull.text import CUT_NOTE
from mull.turn.request import RULES_BYTES
from mull.turn.result import ToolTurnResult
from mull.turn.session import SESSION_CONTINUES
from mull.turn.tools import RESULT_BYTES
from tests.conftest import Handle, begin, payloads_of
from tests.scripted import (
    SPENDING,
    Script,
    ScriptedModel,
    ScriptedRetriever,
    code,
    reflection,
    routed,
)
from tests.workflows.batches import draft_reader, judging
from tests.workflows.multipath.running import ScriptedTester, report, served

MOST = 512 * 1024
# Six bytes in JSON, as every control character is.
SIX = "\x01"
NAME = SIX * 200
# A control character is not part of a model's name.
MODEL = "\U0001f600" * 200
SPENT = Spending(
    calls=1, input_tokens=10**9, output_tokens=10**9, cached_tokens=10**9, cost_usd=0.1234567890123
)
ALL_SPENT = dict.fromkeys(SPENDING, SPENT)
BOUNDS = {
    "budget_tokens": 10**15,
    "budget_usd": 1e300,
    "budget_seconds": 2_591_999.999,
    "review_timeout_seconds": 2_591_999.999,
    "max_attempts": 100,
    "temperature": 1.9999999999999,
    "seed": 2**31,
    "max_output_tokens": 32_768,
    "model": MODEL,
}


def six(size: int) -> str:
    return SIX * (size // 6)


class Largest(NamedTuple):
    """A run with everything as large as it may be."""

    kind: str
    request: dict[str, Any]
    model: LanguageModel
    retriever: ScriptedRetriever | None = None
    tester: ScriptedTester | None = None
    # What people say of its results, in turn.
    reviews: Sequence[dict[str, Any]] = ()


def framed(beside: int = 0) -> dict[str, Any]:
    """All that a model may be asked with beside texts of so many bytes."""
    return {
        "system": six((173_900 - beside) // 3),
        "context": [six((173_900 - beside) // 3)] * 2,
        "messages": [{"role": "assistant", "content": SIX}] * 3_000,
        "options": {"stop": [SIX * 200] * 4},
    }


def said(replacement: int, revisions: int = 5) -> list[dict[str, Any]]:
    """All the revisions that people may ask for, and then a text of theirs of so many bytes."""
    asked = [{"revise": f"{place}{SIX * 3_999}", "author": NAME} for place in range(revisions)]
    return [*asked, {"replace": six(replacement), "author": NAME}]


def asked(answer: str, count: int, **framing: Any) -> Largest:
    """Every sample has another answer, with a reasoning as long as a reply may be."""
    request = {
        "question": six(min(100_000, 19_000_000 // count)),
        "prompt_template": six(min(20_000, 900_000 // count)),
        "rule": "fixed",
        "max_responses": count,
        "min_responses": 1,
        "max_concurrency": 32,
        "review_when": "high",
        **framing,
    }
    texts = [f"{place} {answer}" for place in range(count)]
    model = ScriptedModel(sample=texts, spending={"sample": SPENT})
    return Largest(
        "SelfConsistencyWorkflow", request, model, reviews=said(min(1_998, 60_000 // count), 0)
    )


def judged(revisions: int, judges: int, sources: int, **framing: Any) -> Largest:
    """Each draft is as long as a reply may be, and each judge finds as much wrong as one can."""
    drafted = revisions + 1 + 5
    names = [f"{'x' * 38}_{chr(97 + place)}" for place in range(10)]
    points = [
        {"criterion": name, "place": f"{place}{six(200)}", "advice": f"a{place}{six(600)}"}
        for name in names
        for place in range(20)
    ]
    panel = [MODEL[:-1] + chr(97 + place) for place in range(judges)]
    judgements = [
        json.dumps({"feedback": points, "criteria_scores": dict.fromkeys(names, 0.1 + at / 20)})
        for at in range(drafted)
    ]
    request = {
        "query": six(100_000),
        "sources": [six(20_000)] * sources,
        "criteria": [{"name": name, "meaning": SIX * 500, "weight": 99.99} for name in names],
        "judges": panel,
        "score_threshold": 1,
        "min_gain": 0,
        "min_complexity": 0,
        "max_revisions": revisions,
        "guardrails": [],
        "judge_max_output_tokens": 32_768,
        "review_below": 1,
        **framing,
    }
    drafts = [f"{place}{SIX * 30_000}" for place in range(drafted)]
    critic = ScriptedModel(write=drafts, judge=dict.fromkeys(panel, judgements), spending=ALL_SPENT)
    reviews = said(650_000 // (revisions + 7))
    return Largest("ReflectOnResultWorkflow", request, critic, reviews=reviews)


def researched() -> Largest:
    """Twenty passages of the longest kind, and reports with as many issues as one may have."""
    source = f"{SIX * 255}/{SIX * 255}.md"
    passages = [
        Passage(
            id=f"{'a' * 12}-{number}",
            source=f"{number}{source}",
            first_line=999_999,
            last_line=999_999,
            score=0.123456789012,
            text=f"{number}{SIX * 1_500}",
        )
        for number in range(20)
    ]
    found = Retrieval(passages=tuple(passages), files=50_000, searched=50_000)
    issues = [f"mend {number} {six(600)}" for number in range(50)]
    wrong = reflection(*issues, sentence=f"It is {six(600)}", suggestions=issues)
    script: Script = {
        "generate_report": [f"{place} {SIX * 30_000}" for place in range(15)],
        "reflect_on_report": [wrong] * 15,
    }
    request = {
        "prompt": six(100_000),
        "mode": "research",
        "docs": SIX * 4_096,
        "judge": MODEL,
        "passages": 20,
        "max_revisions": 10,
        "packages": ["p" * 100] * 50,
        "review_open": True,
    }
    agent = ScriptedModel(**script, spending=ALL_SPENT)
    retriever = ScriptedRetriever([found])
    return Largest("MultiPathWorkflow", request, agent, retriever, reviews=said(60_000))


def coded() -> Largest:
    """The longest test file, and ten drafts of code as long as they may be, none of which holds."""
    request = {
        "prompt": six(100_000),
        "entry": "f" * 100,
        "tests": {"name": "test_it.py", "text": six(200_000)},
        "max_revisions": 10,
        "packages": ["p" * 100] * 50,
        "review_open": True,
    }
    script: Script = {
        "route": [routed("code", six(600))],
        "generate_code": [
            code(f"def {request['entry']}():\n    return '{place}{'é' * 29_000}'")
            for place in range(15)
        ],
    }
    failed = report(*[False] * 25, calls=[f"{place}{six(600)}" for place in range(25)])
    agent = ScriptedModel(**script, spending=ALL_SPENT)
    tester = ScriptedTester(*[failed] * 15)
    return Largest("MultiPathWorkflow", request, agent, None, tester, said(60_000))


RUNS = {
    "few answers": asked(six(1_900), 30),
    "many answers": asked(six(340), 160),
    "one revision": judged(1, 2, 10),
    "ten revisions": judged(10, 1, 5),
    "framed answers": asked(six(1_900), 30, **framed()),
    "framed drafts": judged(1, 1, 0, **framed(100_000)),
    "research": researched(),
    "code": coded(),
}


async def sizes(handle: Handle) -> list[int]:
    """Measure the events as they are stored where nothing in them can be made smaller.

    The texts here can be: what is expanded is as large as it would be of the worst one.
    """
    found = []
    async for event in handle.fetch_history_events():
        for payload in payloads_of(event):
            payload.CopyFrom(expanded(payload))
        found.append(event.ByteSize())
    return found


def serving(client: Client, run: Largest) -> AbstractAsyncContextManager[None]:
    """Serve with a cache: to replay these histories at every task takes minutes."""
    workers = worker.build(client, ["mull", "llm"], run.model, retriever=run.retriever)
    return worker.running([*workers, *([run.tester.worker(client)] if run.tester else [])])


async def reviewed(handle: Handle, run: Largest) -> dict[str, Any]:
    """Say what people say of each result that waits, and return the last one."""
    for review in run.reviews:
        refused = "not waiting"
        while "not waiting" in refused:
            try:
                await handle.execute_update("review", review)
                refused = ""
            except WorkflowUpdateFailedError as error:
                refused = str(error.cause)
                await asyncio.sleep(0.2)
        assert refused == ""
    result: dict[str, Any] = await handle.result()
    return result


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
async def test_no_event_passes_512_kib(client: Client, run: Largest) -> None:
    async with serving(client, run):
        handle = await begin(client, {**BOUNDS, **run.request}, run.kind)
        result = await reviewed(handle, run)
    found = await sizes(handle)

    assert max(found) <= MOST
    assert result["stop_reason"] == "replaced_by_person"
    if result.get("mode", "research") == "research" and "drafts" in result:
        written = [draft for draft in result["drafts"] if draft["origin"] != "replaced"]
        assert len(written) == run.request["max_revisions"] + ("query" in run.request) + 5
        assert all(draft["cut"] or CUT_NOTE in draft["text"] for draft in written)
        assert any("cut" in warning for warning in result["warnings"])


async def test_no_event_of_a_thousand_answers_passes_512_kib(client: Client) -> None:
    run = asked(six(50), 1_000)
    async with serving(client, run):
        handle = await begin(client, {**BOUNDS, **run.request}, run.kind)
        result = await reviewed(handle, run)
    found = await sizes(handle)

    assert max(found) <= MOST
    assert (result["total_responses"], result["valid_responses"]) == (1_000, 1_000)
    assert any("long lists, were cut" in warning for warning in result["warnings"])


async def test_no_event_of_a_batch_passes_512_kib(client: Client) -> None:
    queries = [f"{place} {SIX * 560}" for place in range(100)]
    request = BatchRequest.model_validate(
        {
            "items": [{"query": query, "draft": "score 0.4"} for query in queries],
            "variants": [judging("v" * 40, 5)],
            "runs_per_execution": 1,
        }
    )
    identity = f"batch-{uuid.uuid4().hex}".ljust(ID_BYTES, "i")
    batch = Batch(request, identity)
    for _ in range(498):
        planned = batch.next()
        assert planned is not None
        batch.ended(batch.run(planned, "failed", error=six(1_000)))

    async with served(client, draft_reader()):
        handle = await client.start_workflow(
            "BatchWorkflow", batch.going_on(), id=identity, task_queue="mull"
        )
        result = await handle.result()
    first = client.get_workflow_handle(identity, run_id=handle.result_run_id)
    found = [await sizes(first), await sizes(client.get_workflow_handle(identity))]

    assert (result["completed"], result["failed"]) == (2, 498)
    assert 460_000 < max(map(max, found)) <= MOST


# What makes no payload much smaller: a byte of JSON each, and none more likely than another.
HARD = [chr(code) for code in range(33, 127) if chr(code) not in '"\\']
MOST_OF_A_TURN = 20_000_000
STEPS = 30


class Hard:
    """Texts that are hard to compress, the same ones each time."""

    def __init__(self) -> None:
        self._chosen = random.Random(7)

    def text(self, size: int) -> str:
        return "".join(self._chosen.choices(HARD, k=size))

    def options(self, shown: int) -> dict[str, Any]:
        """What a turn, and a session, is held to, with texts of so many bytes."""
        rule = {"tool": self.text(200), "action": "deny", "why": self.text(1_000)}
        return {
            **BOUNDS,
            "budget_seconds": 2_591_999,
            "max_steps": STEPS,
            "max_tool_calls": 100,
            "max_reflections": 30,
            "max_context_tokens": 200_000,
            "system": self.text(shown // 3),
            "context": [self.text(shown // 3)] * 2,
            "approve": [rule] * (RULES_BYTES // (len(json.dumps(rule)) + 10)),
            "tools": ["hard", *(f"t{number:0>63}" for number in range(99))],
            "docs": "/" + "d" * 4_000,
            "options": {"stop": [self.text(200)] * 4},
        }

    def tools(self) -> ToolActivities:
        """A tool with results as long as they may be, which answers from its record, too."""

        @tool(read_only=True, idempotent=True, keys=("hard:{number}",))
        async def hard(number: int) -> str:
            """Return what is hard to compress."""
            return f"{number} {self.text(RESULT_BYTES)}"

        return ToolActivities(functions_of(hard, *map(idle, range(99))))


def idle(number: int) -> Any:
    """Make a tool with a long name, which nobody calls."""

    def named() -> str:
        raise AssertionError

    named.__name__ = f"t{number:0>63}"
    return tool(read_only=True)(named)


def turning(client: Client, model: ScriptedModel, hard: Hard) -> AbstractAsyncContextManager[None]:
    """Serve turns and sessions with a cache, as above."""
    queues = ["mull", "llm", "tools"]
    return worker.running(worker.build(client, queues, model, called=hard.tools()))


async def stored(handle: Handle) -> list[int]:
    return [event.ByteSize() async for event in handle.fetch_history_events()]


async def test_no_event_of_a_turn_passes_512_kib_and_no_turn_20_mb(client: Client) -> None:
    hard = Hard()
    steps: list[Any] = [
        [("hard", {"number": 3 * step + place}) for place in (0, 1, 2)]
        + [("hard", {"number": 3 * step})] * (61 if step % 10 == 9 else 3)
        for step in range(STEPS - 1)
    ]
    model = ScriptedModel(step=[*steps, hard.text(100_000)])
    request = {**hard.options(250_000), "message": hard.text(99_000)}
    async with turning(client, model, hard):
        handle = await begin(client, request, "ToolTurnWorkflow")
        result = ToolTurnResult.model_validate(await handle.result())
    found = await stored(handle)

    repeated = [call for call in result.calls if call.record_of is not None]
    assert (result.stop_reason, result.budget.steps_used) == ("answered", STEPS)
    assert (result.budget.tool_calls_used, len(repeated) > 100) == (87, True)
    assert max(found) <= MOST
    assert sum(found) <= MOST_OF_A_TURN


async def test_no_event_of_a_session_passes_512_kib(client: Client) -> None:
    """Its start, its messages and answers, and all that goes on with it in new histories.

    The ids of its messages, the answers to them and the options are as long as they may be.
    """
    hard = Hard()
    request = {
        **hard.options(20_000),
        "turns_per_execution": 3,
        "messages": [{"role": "user", "content": hard.text(69_000)}] * 4,
    }
    told: list[Any] = [lambda _: hard.text(100_000)] * 9
    model = ScriptedModel(step=told)
    async with turning(client, model, hard):
        handle = await begin(client, request, "SessionWorkflow")
        for number in range(9):
            said = {"message": hard.text(30_000), "context": [hard.text(35_000)] * 2}
            answer = await sent(handle, said, f"{number}{SIX * 33}")
            assert answer["answer"], answer
        await handle.execute_update("finish_now", {"author": NAME})
        result = await handle.result()
    found = {}
    async for run in client.list_workflows(f"WorkflowId STARTS_WITH '{handle.id}'"):
        each = client.get_workflow_handle(run.id, run_id=run.run_id)
        found[run.id, run.run_id] = await stored(each)

    assert (result["turns"], result["failed"], len(found) > 11) == (9, 0, True)
    assert max(map(max, found.values())) <= MOST


async def sent(handle: Handle, said: dict[str, Any], key: str) -> dict[str, Any]:
    """Send a message to a session, again where it is to go on in a new history first."""
    while True:
        try:
            answer: dict[str, Any] = await handle.execute_update("send", said, id=key)
        except WorkflowUpdateFailedError as error:
            if getattr(error.cause, "type", None) != SESSION_CONTINUES:
                raise
            await asyncio.sleep(0.05)
        else:
            return answer
