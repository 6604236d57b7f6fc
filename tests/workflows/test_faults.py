"""An endpoint that fails at one call of a run: the exit code, and what a person reads of it."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from temporalio.client import Client

import worker
from activities.language_model.layers import PacedModel
from commands.follow import follow
from commands.options import Wanted
from mull.critique.request import ReflectOnResultRequest
from mull.handle import Run
from mull.loops import Loop, loop_of
from mull.multipath.request import MultiPathRequest
from mull.sampling.request import SelfConsistencyRequest
from tests.conftest import QUERY, Handle, begin
from tests.scripted import (
    ScriptedRetriever,
    code,
    judgement,
    of_passages,
    reflection,
    written_tests,
)
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint, failing
from tests.workflows.multipath import running as agents
from tests.workflows.multipath.running import ScriptedTester

KEY = "opensesame-1234567890"
ASK = {"question": "How much?", "rule": "fixed", "max_responses": 5, "seed": 0}
REFLECT = {"query": QUERY, "guardrails": [], "max_revisions": 1}
RESEARCH = {"prompt": agents.PROMPT, "mode": "research", "docs": "tides", "max_revisions": 2}
CODE = {"prompt": agents.TASK, "mode": "code", "max_revisions": 2}
KINDS: dict[str, Any] = {
    "question": SelfConsistencyRequest,
    "query": ReflectOnResultRequest,
    "prompt": MultiPathRequest,
}
DRAFT, BETTER = "A tide table is made.", "A tide table is made for pilots."
ANSWER = json.dumps({"reasoning": "r", "answer": "4"})
CALLS = {
    "You judge a draft": "judge",
    "Important: the previous response": "revise",
    "Write a research report": "report",
    "You check a research report": "check",
    "Important: the previous report": "refine",
    "You write tests": "tests",
    "Write Python code": "code",
    "Python code that was written": "repair",
    QUERY: "draft",
}


def replied(call: str, prompt: str) -> str:
    return {
        "ask": ANSWER,
        "draft": DRAFT,
        "judge": judgement(prompt, 0.9 if BETTER in prompt else 0.4) if call == "judge" else "",
        "revise": BETTER,
        "report": agents.WRONG,
        "check": reflection(*([] if agents.FINE in prompt else ["mend it"])),
        "refine": agents.FINE,
        "tests": written_tests("double", agents.CASES),
        "code": code(agents.BAD),
        "repair": code(agents.GOOD),
    }[call]


class Fault(NamedTuple):
    """What comes instead of a reply to a call: to its first `attempts`, or for one seed alone.

    What is `said` of it, and what is `kept`: None where the run fails. A call may take `seconds`.
    """

    request: dict[str, Any]
    call: str
    fault: Scripted
    said: str
    kept: str | None = None
    attempts: int = 99
    seed: int | None = None
    seconds: float = 30


DOWN = failing(500, message="no such luck")
KEYLESS = failing(401, message=f"Incorrect API key: {KEY}")
HTML = Scripted(body=b"<html>hello")
RESET = Scripted(reset=True)
LIMITED = failing(429, headers={"Retry-After": "0"})
FILTERED = Scripted(finish_reason="content_filter")
EMPTY = Scripted(text="")
CUT = Scripted("It is", finish_reason="length")
SLOW = Scripted(delay=3)
HEAVY = Scripted(body=b'{"choices": [' + b"[]," * 200_000 + b"[]]}")
AT = "http://127.0.0.1:{port}/v1/chat/completions "
NO_LUCK = f"InternalServerError: {AT}answered 500: no such luck"
NO_KEY = f"AuthenticationError: {AT}answered 401: Incorrect API key: [key]"
NO_REPLY = "InternalServerError: no reply ever came (5 samples, "
TOO_MUCH = f"TooLarge: {AT}answered 200 with a reply that is too large"
NO_HTML = f"{AT}answered 200 with no usable reply: <html>hello"
LATE = f"Timeout: openai/8 at {AT}did not reply within 1 seconds"
FILTER = "ContentPolicyViolationError: the provider's content filter took the reply"
NOTHING = f"EmptyReply: {AT}answered 200: the reply is empty"
FOUR, WRONG, BAD = "Final Answer: 4", agents.WRONG, agents.BAD
FAULTS = {
    "all samples": Fault(ASK, "ask", DOWN, NO_REPLY),
    "all samples, no key": Fault(ASK, "ask", KEYLESS, NO_KEY),
    "all samples, heavy": Fault(ASK, "ask", HEAVY, TOO_MUCH, "(unreadable): 5 answers"),
    "all samples filtered": Fault(ASK, "ask", FILTERED, FILTER, "(unreadable): 5 answers"),
    "one sample of five": Fault(ASK, "ask", HTML, NO_HTML, FOUR, seed=2),
    "one sample limited": Fault(ASK, "ask", LIMITED, "5, in 1 wave", FOUR, 1, 2),
    "one sample reset": Fault(ASK, "ask", RESET, "5, in 1 wave", FOUR, 1, 2),
    "the first draft": Fault(REFLECT, "draft", DOWN, NO_LUCK),
    "the first draft, slow": Fault(REFLECT, "draft", SLOW, LATE, seconds=1),
    "the first draft filtered": Fault(REFLECT, "draft", FILTERED, FILTER),
    "the first draft empty": Fault(REFLECT, "draft", EMPTY, NOTHING),
    "the first draft once": Fault(REFLECT, "draft", EMPTY, "(passed)", BETTER, 1),
    "the judge": Fault(REFLECT, "judge", DOWN, NO_LUCK, DRAFT),
    "the judge, no key": Fault(REFLECT, "judge", KEYLESS, NO_KEY, DRAFT),
    "the judge cut off": Fault(REFLECT, "judge", CUT, "CutOff: the reply was cut off", DRAFT),
    "the judge once": Fault(REFLECT, "judge", HTML, "(passed)", BETTER, 1),
    "the revision": Fault(REFLECT, "revise", DOWN, NO_LUCK, DRAFT),
    "the revision filtered": Fault(REFLECT, "revise", FILTERED, FILTER, DRAFT),
    "the report": Fault(RESEARCH, "report", DOWN, NO_LUCK),
    "the report's check": Fault(RESEARCH, "check", DOWN, NO_LUCK, WRONG),
    "the better report": Fault(RESEARCH, "refine", RESET, "Connection reset by peer", WRONG),
    "the tests": Fault(CODE, "tests", DOWN, NO_LUCK, BAD),
    "the code": Fault(CODE, "code", DOWN, NO_LUCK),
    "the repair": Fault(CODE, "repair", DOWN, NO_LUCK, BAD),
}


class Endpoint:
    """Reply to every row of the table: the model's name is the row."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()

    def __call__(self, request: Body) -> Scripted:
        prompt, row = request["messages"][-1]["content"], request["model"]
        call = next((call for start, call in CALLS.items() if prompt.startswith(start)), "ask")
        fault = list(FAULTS.values())[int(row)]
        if call == fault.call and fault.seed in (None, request.get("seed")):
            self._asked[row, call] += 1
            if self._asked[row, call] <= fault.attempts:
                return fault.fault
        return Scripted(replied(call, prompt))


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(Endpoint()) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server


@pytest.mark.filterwarnings("ignore:Cannot find activity to cancel")
async def test_what_is_left_of_a_run_whose_endpoint_fails(
    client: Client, endpoint: ScriptedEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was paid for is kept, and what failed is told with its address and without the key.

    One test for all rows, whose runs wait for seconds: they go on side by side.
    """
    from activities.language_model.litellm_model import LiteLLMModel

    model = PacedModel(LiteLLMModel(None))
    tester = ScriptedTester(agents.report(False, True, True), agents.report(True, True, True))
    retriever = ScriptedRetriever([of_passages([agents.passage()])] * len(FAULTS))
    workers = worker.build(client, ["mull", "llm"], model, retriever=retriever)
    wrong = []
    async with worker.running([*workers, tester.worker(client)]):
        runs = [await start(client, str(row), fault) for row, fault in enumerate(FAULTS.values())]
        for (name, fault), (handle, loop, request) in zip(FAULTS.items(), runs, strict=True):
            capsys.readouterr()
            code = await follow(Run[Any](client, loop, handle), request, Wanted())
            printed = capsys.readouterr()
            shown = " ".join(f"{printed.err} {printed.out}".split())
            kept = fault.kept is not None and fault.kept in printed.out
            told = fault.said.format(port=endpoint.port) in shown
            bare = any(word in shown for word in (KEY, "Traceback", "litellm", " object at "))
            if not told or bare or (code != 1, code != 1) != (kept, fault.kept is not None):
                wrong.append((name, code, shown))

    assert wrong == []


async def start(client: Client, row: str, fault: Fault) -> tuple[Handle, Loop, Any]:
    kind = next(kind for name, kind in KINDS.items() if name in fault.request)
    seconds = "sample_timeout_seconds" if kind is SelfConsistencyRequest else "call_timeout_seconds"
    request = kind.model_validate(
        {**fault.request, "model": f"openai/{row}", "max_attempts": 2, seconds: fault.seconds}
    )
    loop = loop_of(request)
    identity = (await begin(client, request, loop.workflow)).id
    return client.get_workflow_handle(identity, result_type=loop.result), loop, request
