"""Fakes of the ports: a model, a retriever and a sandbox that say what a test wrote down.

A call that the script does not foresee fails the run, loudly.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.documents.retrieval import (
    Progress,
    Retrieval,
    RetrievalError,
    RetrievalTask,
    unwatched,
)
from activities.language_model.port import ModelCall, ModelError, ModelReply, PermanentModelError
from activities.sandbox.port import Output, Program, Result, SandboxError, Status
from mull.multipath.parts import Passage
from mull.run import Spending
from mull.turn import midturn
from mull.turn.tools import AskedCall

ADVICE = "name the year"
SUMMARY = "What was said before: little."
COMPARED = re.compile(r"^Answer [12]: (.*)$", re.MULTILINE)
CRITERION = re.compile(r"^- ([a-z_]+): ", re.MULTILINE)

SPENT = Spending(calls=1, input_tokens=80, output_tokens=20, cached_tokens=0, cost_usd=0.001)
WRITING = Spending(calls=1, input_tokens=30, output_tokens=70, cached_tokens=0, cost_usd=0.002)
JUDGING = Spending(calls=1, input_tokens=40, output_tokens=10, cached_tokens=0, cost_usd=0.001)
SPENDING = {
    **dict.fromkeys(("write", "generate_report", "generate_code", "write_tests"), WRITING),
    **dict.fromkeys(("judge", "route", "reflect_on_report"), JUDGING),
}

# What is said to a call: a text, None for a sample without an answer, scores of a judge, calls of
# tools by a step, whether two answers mean the same, a whole reply, an error, or a function of the
# call that returns one of these or awaits it.
Said = Any
Lines = Sequence[Said] | Callable[[ModelCall], Said]
Place = tuple[str, int | None]
Script = dict[str, Any]


def place_of(call: ModelCall) -> Place:
    """Tell the kinds of calls of all loops apart, with the index of a sample or draft."""
    labels = call.labels
    if "mull.node" in labels:
        return str(labels["mull.node"]), int(labels.get("mull.draft.index", 0))
    if "mull.sample.index" in labels:
        return "sample", int(labels["mull.sample.index"])
    if "mull.draft.index" in labels:
        kind = "write" if call.reply_schema is None else "judge"
        return kind, int(labels["mull.draft.index"])
    return _kind(call), None


def _kind(call: ModelCall) -> str:
    if "mull.turn.step" in call.labels:
        first = call.messages[0]["content"]
        summary = "summary" if first.startswith("Summarize the earlier part") else "step"
        return "reflection" if first == midturn.SYSTEM else summary
    if "Judge whether its answer" in call.prompt:
        return "verdict"
    if call.prompt.endswith("Reflection:"):
        return "reflect"
    return "plan" if "mull.episode" in call.labels else "compare"


def kind_of(call: ModelCall) -> str:
    return place_of(call)[0]


class ScriptedModel:
    """Reply to each call with the line that the script has for its kind; `each` is any other kind.

    The kinds are `sample` and `compare` of answers, `write` and `judge` of drafts, the nodes of the
    agent, `plan`, `reflect` and `verdict` of episodes, and `step`, `reflection` and `summary` of
    turns. Samples and drafts take their line by their index, where a list holds one line for each
    call in turn, and a sample's line alone serves any number of runs; other kinds take the next
    line. `judge` may have lines by the judge's model. A function in place of lines replies to every
    call. `delays` are seconds by kind and index, or of samples in order, and `delay` those of all
    other calls; all wait until `held` is set. `spending` is by kind. `most` calls were under way at
    once.
    """

    def __init__(
        self,
        *,
        delays: Mapping[Any, float] | Sequence[float] = (),
        delay: float = 0,
        held: asyncio.Event | None = None,
        spending: Mapping[str, Spending] | None = None,
        **script: Lines | Mapping[str, Lines],
    ) -> None:
        if not isinstance(delays, Mapping):
            delays = {("sample", index): seconds for index, seconds in enumerate(delays)}
        self._script = {"summary": lambda _: SUMMARY, **script}
        self._delays, self._delay, self._held = delays, delay, held
        self._spending = {**SPENDING, **(spending or {})}
        self._taken: Counter[object] = Counter()
        self.calls: list[ModelCall] = []
        self.cancelled: list[Place] = []
        self.under_way = self.most = 0

    def asked(self, kind: str) -> list[ModelCall]:
        return [call for call in self.calls if kind_of(call) == kind]

    def prompts(self, kind: str) -> list[str]:
        return [call.prompt for call in self.asked(kind)]

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the script. Raises the script's errors."""
        self.calls.append(call)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self._reply(call, place_of(call))
        except asyncio.CancelledError:
            self.cancelled.append(place_of(call))
            raise
        finally:
            self.under_way -= 1

    async def _reply(self, call: ModelCall, place: Place) -> ModelReply:
        await asyncio.sleep(self._delays.get(place, self._delay))
        if self._held:
            await self._held.wait()
        said = self._line(call, *place)
        said = said(call) if callable(said) else said
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, ModelError):
            raise said
        if isinstance(said, ModelReply):
            return said
        kind = place[0]
        if kind == "step" and isinstance(said, list):
            asked = tuple(
                AskedCall(id=f"{len(self.calls)}-{at}", name=name, arguments=json.dumps(given))
                for at, (name, given) in enumerate(said)
            )
            spent = self._spending.get(kind, SPENT)
            return reply("", "scripted/model", spent, "tool_calls", asked)
        model = call.model if kind in SPENDING and call.model else "scripted/model"
        return reply(_worded(call, kind, said), model, self._spending.get(kind, SPENT))

    def _line(self, call: ModelCall, kind: str, index: int | None) -> Said:
        lines = self._script.get(kind, self._script.get("each", ()))
        key: tuple[object, ...] = (kind, index)
        if isinstance(lines, Mapping):
            lines, key = lines.get(call.model or "", ()), (call.model, kind, index)
        if callable(lines):
            return lines
        taken = self._taken[key]
        self._taken[key] += 1
        if index is not None:
            if index >= len(lines):
                return _exhausted(kind, f" for {index}")
            if kind == "sample" and not isinstance(lines[index], list):
                return lines[index]
            lines = lines[index] if isinstance(lines[index], list) else [lines[index]]
        return lines[taken] if taken < len(lines) else _exhausted(kind, "")


def _exhausted(kind: str, place: str) -> ModelError:
    return PermanentModelError(f"no more lines of {kind}{place}", "ScriptExhausted")


def _worded(call: ModelCall, kind: str, said: Said) -> str:
    """Write what was said as a model of that kind of call does."""
    if kind == "sample":
        answer = {"reasoning": f"because {said}", "answer": said}
        return "no answer" if said is None else json.dumps(answer)
    if kind == "compare":
        return json.dumps({"reasoning": "scripted", "same_meaning": said})
    return said if isinstance(said, str) else judgement(call.prompt, said)


def same(means: Callable[[str, str], bool]) -> Callable[[ModelCall], bool]:
    """Compare two answers by a function of them."""
    return lambda call: means(*map(json.loads, COMPARED.findall(call.prompt)))


def judgement(prompt: str, score: float | Mapping[str, float], advice: str = ADVICE) -> str:
    """Write a judge's reply that gives every criterion of the prompt its score."""
    names = CRITERION.findall(prompt)
    scores = {name: score[name] if isinstance(score, Mapping) else score for name in names}
    point = {"criterion": names[0], "place": "the first sentence", "advice": advice}
    said = {"feedback": [point], "criteria_scores": scores, "confidence": "medium"}
    return json.dumps(said)


def reply(
    text: str,
    model: str = "scripted/model",
    spending: Spending = WRITING,
    finish_reason: str = "stop",
    calls: tuple[AskedCall, ...] = (),
) -> ModelReply:
    """Make a whole reply."""
    return ModelReply(
        text=text,
        model=model,
        provider="scripted",
        finish_reason=finish_reason,
        spending=spending,
        calls=calls,
    )


def routed(mode: str, reason: str = "it asks for it") -> str:
    return json.dumps({"reason": reason, "mode": mode})


def reflection(*issues: str, sentence: str = "", suggestions: Sequence[str] = ()) -> str:
    """Write a reflection's reply: an issue for each advice, all about the same sentence."""
    listed = [
        {"sentence": sentence, "aspect": "clarity", "source": 0, "advice": each} for each in issues
    ]
    said = {"issues": listed, "consistent": not listed, "suggestions": list(suggestions)}
    return json.dumps(said)


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def written_tests(entry: str, cases: Mapping[str, str]) -> str:
    """Write a reply with tests: what each call must give, as a literal."""
    listed = [{"call": call, "expected": expected} for call, expected in cases.items()]
    return json.dumps({"reasoning": "worked out", "entry": entry, "tests": listed})


RetrieverTurn = Sequence[Passage] | Retrieval | Exception


class ScriptedRetriever:
    """Answer the i-th retrieval with the i-th turn: passages, a whole retrieval, or an error.

    Each takes `delay` seconds. A retrieval that the script does not foresee fails, loudly.
    """

    def __init__(self, turns: Sequence[RetrieverTurn] = (), *, delay: float = 0) -> None:
        self._turns = list(turns)
        self._delay = delay
        self.tasks: list[RetrievalTask] = []
        self.cancelled = 0

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find what the script says. Raises the script's errors."""
        self.tasks.append(task)
        if len(self.tasks) > len(self._turns):
            raise RetrievalError(f"no retrieval is scripted for call {len(self.tasks)}")
        turn = self._turns[len(self.tasks) - 1]
        progress(0, 1)
        await self._wait()
        progress(1, 1)
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, Retrieval) else of_passages(turn)

    async def _wait(self) -> None:
        try:
            await asyncio.sleep(self._delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def of_passages(passages: Sequence[Passage]) -> Retrieval:
    """Make a retrieval of passages whose files are all that there is."""
    files = len({each.source for each in passages})
    return Retrieval(passages=tuple(passages), files=files, searched=files)


def passage(number: int, text: str, source: str | None = None) -> Passage:
    """Make the passage of a source, by its number from 1."""
    return Passage(
        id=f"{number:012x}-0",
        source=source or f"document-{number}.md",
        first_line=1,
        last_line=1 + text.count("\n"),
        score=1 / number,
        text=text,
    )


Reply = Result | SandboxError | Callable[[Program], Result]


class ScriptedSandbox:
    """Reply to the i-th program with the i-th reply; one too many fails the run, loudly."""

    name = "scripted"
    at_once = 4

    def __init__(self, script: Sequence[Reply]) -> None:
        self._script = script
        self.programs: list[Program] = []

    async def run(self, program: Program) -> Result:
        """Reply by the script. Raises the script's errors."""
        self.programs.append(program)
        if len(self.programs) > len(self._script):
            raise ApplicationError(
                f"no reply for program {len(self.programs)}",
                type="ScriptExhausted",
                non_retryable=True,
            )
        reply = self._script[len(self.programs) - 1]
        if isinstance(reply, SandboxError):
            raise reply
        return reply if isinstance(reply, Result) else reply(program)


def answering(
    *said: dict[str, object], status: Status = "ok", before: str = "", after: str = ""
) -> Callable[[Program], Result]:
    """Reply as the programs of `activities/code_tests` do: a line for each object, with the nonce.

    `before` and `after` are what else is on the standard output.
    """

    def reply(program: Program) -> Result:
        nonce = json.loads(program.input)["nonce"]
        lines = "".join(f"\n{nonce} {json.dumps(each)}\n" for each in said)
        return finished(program, f"{before}{lines}{after}", status)

    return reply


def finished(program: Program, stdout: str = "", status: Status = "ok") -> Result:
    """Make the result of a program that printed this and ended this way."""
    return Result(
        status=status,
        exit_code=0 if status == "ok" else None,
        signal=11 if status == "killed_by_signal" else None,
        stdout=Output(head=stdout, tail="", size=len(stdout)),
        stderr=Output(head="", tail="", size=0),
        wall_seconds=0.1,
        cpu_seconds=0.1,
        peak_memory_bytes=1_000_000,
        backend=ScriptedSandbox.name,
        limits=program.limits,
    )
