"""A fake of the port for reflection: it writes and judges what a test wrote down."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence

from activities.language_model import ModelCall, ModelError, ModelReply, PermanentModelError
from reflection.usage import Spending

ADVICE = "name the year"
CRITERION = re.compile(r"^- ([a-z_]+): ", re.MULTILINE)

Drafted = str | ModelError | ModelReply
Judged = float | Mapping[str, float] | str | ModelError | ModelReply
Turn = Drafted | Judged

WRITING = Spending(calls=1, input_tokens=30, output_tokens=70, cached_tokens=0, cost_usd=0.002)
JUDGING = Spending(calls=1, input_tokens=40, output_tokens=10, cached_tokens=0, cost_usd=0.001)


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
        self._turns: dict[tuple[str | None, str, int], int] = {}
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

    def _turn(self, call: ModelCall, kind: str, index: int) -> Turn:
        script: Sequence[Turn | list[Turn] | list[Drafted] | list[Judged]] = self._drafts
        if kind == "judge":
            script = self._panel.get(call.model or "", self._scores)
        if index >= len(script):
            return PermanentModelError(f"nothing to {kind} for draft {index}", "ScriptExhausted")
        line = script[index]
        turns = line if isinstance(line, list) else [line]
        key = (call.model if kind == "judge" else None, kind, index)
        taken = self._turns.get(key, 0)
        self._turns[key] = taken + 1
        if taken >= len(turns):
            return PermanentModelError(f"no more to {kind} for draft {index}", "ScriptExhausted")
        return turns[taken]


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
