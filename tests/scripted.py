"""Fakes of the ports: models, a retriever and a sandbox that say what a test wrote down.

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
from mull.multipath.state import Passage
from mull.run import Spending

COMPARED = re.compile(r"^Answer [12]: (.*)$", re.MULTILINE)

Said = str | None | ModelError


class ScriptedModel:
    """Reply to sample i with the i-th line of a script.

    A line is an answer, None for a reply without one, an error, or a list with one of these for
    each attempt. `delays` are seconds by sample; `same` decides whether two answers mean the
    same, after the errors of `judging` and `judging_delay` seconds. A call that the script does
    not foresee fails the run, loudly.
    """

    def __init__(
        self,
        script: Sequence[Said | list[Said]],
        *,
        delays: Sequence[float] = (),
        held: asyncio.Event | None = None,
        same: Callable[[str, str], bool] | None = None,
        judging: Sequence[ModelError] = (),
        judging_delay: float = 0,
        spending: Spending | None = None,
    ) -> None:
        self._script = script
        self._delays = delays
        self._held = held
        self._same = same
        self._judging = list(judging)
        self._judging_delay = judging_delay
        self._spending = spending or Spending(
            calls=1, input_tokens=80, output_tokens=20, cached_tokens=0, cost_usd=0.001
        )
        self._attempts: Counter[int] = Counter()
        self.calls: list[ModelCall] = []
        self.cancelled: list[int] = []

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the script. Raises the script's errors."""
        self.calls.append(call)
        index = call.labels.get("mull.sample.index")
        if not isinstance(index, int):
            await asyncio.sleep(self._judging_delay)
            return self._reply(self._judge(call))
        await self._wait(index)
        said = self._line(index)
        if isinstance(said, ModelError):
            raise said
        return self._reply("no answer" if said is None else _worded(said))

    async def _wait(self, index: int) -> None:
        try:
            await asyncio.sleep(self._delays[index] if index < len(self._delays) else 0)
            if self._held:
                await self._held.wait()
        except asyncio.CancelledError:
            self.cancelled.append(index)
            raise

    def _line(self, index: int) -> Said:
        if index >= len(self._script):
            return PermanentModelError(f"no line for sample {index}", "ScriptExhausted")
        line = self._script[index]
        if not isinstance(line, list):
            return line
        self._attempts[index] += 1
        if self._attempts[index] > len(line):
            return PermanentModelError(f"no more attempts at sample {index}", "ScriptExhausted")
        return line[self._attempts[index] - 1]

    def _judge(self, call: ModelCall) -> str:
        if self._same is None:
            raise PermanentModelError("no comparison is foreseen", "ScriptExhausted")
        if self._judging:
            raise self._judging.pop(0)
        earlier, new = map(json.loads, COMPARED.findall(call.prompt))
        return json.dumps({"reasoning": "scripted", "same_meaning": self._same(earlier, new)})

    def _reply(self, text: str) -> ModelReply:
        return ModelReply(
            text=text,
            model="scripted/model",
            provider="scripted",
            finish_reason="stop",
            spending=self._spending,
        )


def _worded(answer: str) -> str:
    return json.dumps({"reasoning": f"because {answer}", "answer": answer})


ADVICE = "name the year"
CRITERION = re.compile(r"^- ([a-z_]+): ", re.MULTILINE)

Drafted = str | ModelError | ModelReply
Judged = float | Mapping[str, float] | str | ModelError | ModelReply
CriticTurn = Drafted | Judged

WRITING = Spending(calls=1, input_tokens=30, output_tokens=70, cached_tokens=0, cost_usd=0.002)
JUDGING = Spending(calls=1, input_tokens=40, output_tokens=10, cached_tokens=0, cost_usd=0.001)


def taken(script: Sequence[Any], index: int, what: str, turns: Counter[object], key: object) -> Any:
    """Take the next turn for draft `index`: of a list one for each call, and counted by `key`."""
    if index >= len(script):
        return PermanentModelError(f"nothing to {what} for draft {index}", "ScriptExhausted")
    line = script[index] if isinstance(script[index], list) else [script[index]]
    turns[key] += 1
    if turns[key] > len(line):
        return PermanentModelError(f"no more to {what} for draft {index}", "ScriptExhausted")
    return line[turns[key] - 1]


class ScriptedCritic:
    """Reply to the call for draft i with the i-th of `drafts`, and judge it with the i-th score.

    A draft is a text, a whole reply or an error. A judgement is one score for every criterion, a
    score for each, a raw reply, or an error. A list holds one of these for each call in turn.
    `panel` has the judgements of further judges, by model. `delays` are seconds, by "write" or
    "judge" and the draft's index. A call that the script does not foresee fails, loudly.
    """

    def __init__(
        self,
        drafts: Sequence[Drafted | list[Drafted]],
        scores: Sequence[Judged | list[Judged]] = (),
        *,
        panel: Mapping[str, Sequence[Judged | list[Judged]]] | None = None,
        delays: Mapping[tuple[str, int], float] | None = None,
        writing: Spending = WRITING,
        judging: Spending = JUDGING,
    ) -> None:
        self._drafts = drafts
        self._scores = scores
        self._panel = panel or {}
        self._delays = delays or {}
        self._spending = {"write": writing, "judge": judging}
        self._turns: Counter[object] = Counter()
        self.calls: list[ModelCall] = []
        self.cancelled: list[tuple[str, int]] = []

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the script. Raises the script's errors."""
        self.calls.append(call)
        index = int(call.labels["mull.draft.index"])
        kind = "write" if call.reply_schema is None else "judge"
        await self._wait(kind, index)
        turn = self._turn(call, kind, index)
        if isinstance(turn, ModelError):
            raise turn
        if isinstance(turn, ModelReply):
            return turn
        text = turn if isinstance(turn, str) else judgement(call.prompt, turn)
        return reply(text, call.model or "scripted/model", self._spending[kind])

    async def _wait(self, kind: str, index: int) -> None:
        try:
            await asyncio.sleep(self._delays.get((kind, index), 0))
        except asyncio.CancelledError:
            self.cancelled.append((kind, index))
            raise

    def _turn(self, call: ModelCall, kind: str, index: int) -> CriticTurn:
        script: Sequence[object] = self._drafts
        if kind == "judge":
            script = self._panel.get(call.model or "", self._scores)
        key = (call.model if kind == "judge" else None, kind, index)
        turn: CriticTurn = taken(script, index, kind, self._turns, key)
        return turn


def judgement(prompt: str, score: float | Mapping[str, float]) -> str:
    """Write a judge's reply that gives every criterion of the prompt its score."""
    names = CRITERION.findall(prompt)
    scores = {name: score[name] if isinstance(score, Mapping) else score for name in names}
    point = {"criterion": names[0], "place": "the first sentence", "advice": ADVICE}
    said = {"feedback": [point], "criteria_scores": scores, "confidence": "medium"}
    return json.dumps(said)


def reply(
    text: str,
    model: str = "scripted/model",
    spending: Spending = WRITING,
    finish_reason: str = "stop",
) -> ModelReply:
    """Make a whole reply."""
    return ModelReply(
        text=text,
        model=model,
        provider="scripted",
        finish_reason=finish_reason,
        spending=spending,
    )


AgentTurn = str | ModelError | ModelReply
Script = Mapping[str, Sequence[AgentTurn | list[AgentTurn]]]

WRITES = frozenset({"generate_report", "generate_code", "write_tests"})


class ScriptedAgent:
    """Reply to a node's call for draft i with the i-th of its turns, and fail where there is none.

    `script` has the turns by node: `route`, `generate_report`, `reflect_on_report`, `write_tests`
    and `generate_code`. A turn is a text, a whole reply or an error; a list holds one of these for
    each call in turn. `delays` are seconds, by node and the draft's index. A call that the script
    does not foresee fails, loudly.
    """

    def __init__(
        self,
        script: Script,
        *,
        delays: Mapping[tuple[str, int], float] | None = None,
        writing: Spending = WRITING,
        judging: Spending = JUDGING,
    ) -> None:
        self._script = script
        self._delays = delays or {}
        self._writing = writing
        self._judging = judging
        self._taken: Counter[object] = Counter()
        self.calls: list[ModelCall] = []
        self.cancelled: list[tuple[str, int]] = []

    def asked(self, node: str) -> list[ModelCall]:
        """List the calls of a node."""
        return [each for each in self.calls if each.labels["mull.node"] == node]

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the script. Raises the script's errors."""
        self.calls.append(call)
        place = str(call.labels["mull.node"]), int(call.labels.get("mull.draft.index", 0))
        try:
            await asyncio.sleep(self._delays.get(place, 0))
        except asyncio.CancelledError:
            self.cancelled.append(place)
            raise
        turn = self._turn(*place)
        if isinstance(turn, ModelError):
            raise turn
        if isinstance(turn, ModelReply):
            return turn
        spending = self._writing if place[0] in WRITES else self._judging
        return reply(turn, call.model or "scripted/model", spending)

    def _turn(self, node: str, index: int) -> AgentTurn:
        script = self._script.get(node, ())
        turn: AgentTurn = taken(script, index, node, self._taken, (node, index))
        return turn


def routed(mode: str, reason: str = "it asks for it") -> str:
    """Write a router's reply."""
    return json.dumps({"reason": reason, "mode": mode})


def reflection(*issues: str, sentence: str = "", suggestions: Sequence[str] = ()) -> str:
    """Write a reflection's reply: an issue for each advice, all about the same sentence."""
    listed = [
        {"sentence": sentence, "aspect": "clarity", "source": 0, "advice": each} for each in issues
    ]
    said = {"issues": listed, "consistent": not listed, "suggestions": list(suggestions)}
    return json.dumps(said)


def code(text: str) -> str:
    """Write a reply with code in a block."""
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
