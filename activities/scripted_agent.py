"""A fake of the port for the agent: it routes, writes, reflects and codes as a test wrote down."""

import asyncio
import json
from collections.abc import Mapping, Sequence

from activities.language_model import ModelCall, ModelError, ModelReply, PermanentModelError
from activities.scripted_critic import reply
from reflection.usage import Spending

Turn = str | ModelError | ModelReply
Script = Mapping[str, Sequence[Turn | list[Turn]]]

WRITES = frozenset({"generate_report", "generate_code", "write_tests"})
WRITING = Spending(calls=1, input_tokens=30, output_tokens=70, cached_tokens=0, cost_usd=0.002)
JUDGING = Spending(calls=1, input_tokens=40, output_tokens=10, cached_tokens=0, cost_usd=0.001)


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
        self._taken: dict[tuple[str, int], int] = {}
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

    def _turn(self, node: str, index: int) -> Turn:
        script = self._script.get(node, ())
        if index >= len(script):
            return PermanentModelError(f"nothing to {node} for draft {index}", "ScriptExhausted")
        line = script[index]
        turns = line if isinstance(line, list) else [line]
        taken = self._taken.get((node, index), 0)
        self._taken[node, index] = taken + 1
        if taken >= len(turns):
            return PermanentModelError(f"no more to {node} for draft {index}", "ScriptExhausted")
        return turns[taken]


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
    """Write a reply with tests: what each call shall give, as a literal."""
    listed = [{"call": call, "expected": expected} for call, expected in cases.items()]
    return json.dumps({"reasoning": "worked out", "entry": entry, "tests": listed})
