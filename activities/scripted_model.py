"""The port's fake: a language model that says what a test wrote down, and nothing else."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence

from activities.language_model import ModelCall, ModelError, ModelReply, PermanentModelError
from reflection.usage import Spending

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
        same: Callable[[str, str], bool] | None = None,
        judging: Sequence[ModelError] = (),
        judging_delay: float = 0,
        spending: Spending | None = None,
    ) -> None:
        self._script = script
        self._delays = delays
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
