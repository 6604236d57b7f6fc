"""The model of `bench.differential`: what it replies, and when.

A reply follows from the request, from how often it came and from the scenario alone, so that two
versions which ask the same are told the same. Replies are held back until no further call of the
run comes, so that the calls of a wave are open at the same time however busy the machine is.
"""

import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from bench.differential.scenarios import MARK, Scenario
from tests.scripted_endpoint import Body, Scripted, failing

# Seconds without a further call after which the calls that are open get their replies. On a busy
# machine the worker begins those of a wave up to 0.15 s apart.
QUIET_SECONDS = 0.3
# What differs from run to run in a text: ids and times.
UNLIKE = (
    re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
    # As pytest says how long it took.
    re.compile(r"in \d+\.\d+s\b"),
    re.compile(r"http://127\.0\.0\.1:\d+"),
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?"),
)
CODES = ("return 2 * n", "return n + n", "return n + 3", "return n * n", "return (", "return None")
CASES = {"double(1)": "2", "double(2)": "4", "double(0)": "0", "double(-3)": "-6"}


def steady(text: str) -> str:
    """Take ids and times out of a text."""
    for pattern in UNLIKE:
        text = pattern.sub("…", text)
    return text


@dataclass
class Call:
    """A call of a model as it came, and when it was open; `dropped`: it gets no reply."""

    body: Body
    opened: float
    closed: float | None = None
    dropped: bool = False


class Script:
    """A model whose replies follow from a request, how often it came, and a seed alone."""

    def __init__(self, scenarios: dict[str, Scenario], seed: int) -> None:
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self._scenarios, self._seed = scenarios, seed
        self._seen = Counter[str]()
        self._last = defaultdict[str, float](float)
        self._passed, self._over = set[str](), set[str]()

    def __call__(self, request: Body) -> Scripted:
        """Take a call down, and say how it is replied to."""
        text = steady(json.dumps(request, sort_keys=True))
        found = MARK.search(text)
        name = found[1] if found else ""
        call = Call(request, time.monotonic())
        self.calls[name].append(call)
        self._last[name] = call.opened
        scenario = self._scenarios.get(name, Scenario(name, ()))
        chance = random.Random(sha256(f"{self._seed} {text}".encode()).digest())
        reply = _reply(request, chance, noisy=scenario.disturbed)
        fault, times = chance.choice(FAULTS)
        slow = 1.0 if scenario.disturbed and chance.random() < 0.1 else 0.0
        if scenario.disturbed and chance.random() < 0.2 and self._seen[text] < times:
            reply = fault
        self._seen[text] += 1
        return replace(reply, until=lambda: self._released(scenario, call, slow))

    def _released(self, scenario: Scenario, call: Call, slow: float) -> bool:
        now = time.monotonic()
        if now < max(call.opened + slow, self._last[scenario.name] + QUIET_SECONDS):
            return False
        if call.closed is None and self.is_due(scenario):
            return False
        if call.dropped and not self.is_over(scenario):
            return False
        call.closed = call.closed or now
        return True

    def is_due(self, scenario: Scenario) -> bool:
        """Tell whether something is to be done to a run before its open calls get a reply."""
        at = scenario.kill or (scenario.act[0] if scenario.act else 0)
        enough = len(self.calls[scenario.name]) >= at > 0
        quiet = time.monotonic() >= self._last[scenario.name] + QUIET_SECONDS
        return enough and quiet and scenario.name not in self._passed

    def go_on(self, scenario: Scenario) -> None:
        """Note that it was done, so that replies are sent, but for calls that are cancelled now."""
        if scenario.act and scenario.act[1][0] in ("finish", "cancel"):
            for call in self.calls[scenario.name]:
                call.dropped = call.closed is None
        self._passed.add(scenario.name)

    def end(self, scenario: Scenario) -> None:
        """Note that a run has ended, so that nothing of it is held back."""
        self._over.add(scenario.name)

    def is_over(self, scenario: Scenario) -> bool:
        """Tell whether a run has ended."""
        return scenario.name in self._over

    def rests(self, scenario: Scenario, seconds: float) -> bool:
        """Tell whether no call of a run has been open for so long."""
        calls = self.calls[scenario.name]
        last = max((call.closed or time.monotonic() for call in calls), default=0.0)
        return time.monotonic() - last > seconds


# What a provider does wrong, and how often before it replies well. A rate limit is waited for ever
# longer, and is no attempt.
FAULTS = (
    (failing(429, headers={"Retry-After": "1"}), 1),
    (failing(500), 1),
    (failing(500), 9),
    (Scripted(body=b"<html><body>Bad gateway</body></html>"), 1),
    (failing(401), 1),
)
DENIED = "I can't help with that."
UNREADABLE = ("It is hard to say {", "", '{"answer": ', DENIED)


def _reply(request: Body, chance: random.Random, *, noisy: bool) -> Scripted:
    """Reply by the prompt, and at times what can't be read, or is cut off."""
    messages = request["messages"]
    prompt = "\n".join(str(message.get("content") or "") for message in messages)
    noise = chance.random() if noisy else 1.0
    tokens = {"prompt_tokens": len(prompt) // 4 + 1}
    calls = _tool_calls(request, chance)
    text = _said(prompt, chance)
    if noise < 0.08:
        text = chance.choice(UNREADABLE)
    ends = "length" if 0.08 <= noise < 0.14 else "stop"
    text = text[: len(text) // 2] if ends == "length" else text
    tokens["completion_tokens"] = len(text) // 4 + 1
    usage = {**tokens, "total_tokens": sum(tokens.values())}
    if calls and noise >= 0.14:
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return Scripted(choices=[choice], usage=usage)
    return Scripted(text, finish_reason=ends, usage=usage)


def _tool_calls(request: Body, chance: random.Random) -> list[Body]:
    """Ask for one or two of the tools, most of the time; not for those that tell the time."""
    known = {tool["function"]["name"] for tool in request.get("tools") or ()}
    wanted = [
        ("calculate", {"expression": chance.choice(("6 * 7", "1 / 0", "2 ** 10"))}),
        ("python", {"code": chance.choice(("print(6 * 7)", "raise ValueError(3)"))}),
        ("search", {"query": "boats"}),
        ("paint", {"colour": "green"}),
    ]
    chosen = [one for one in wanted if one[0] in {*known, "paint"} and chance.random() < 0.7]
    # A number of its own in the turn, for a reader of the differences.
    at = sum(message["role"] == "tool" for message in request["messages"])
    return [
        {
            "id": f"call-{at + place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(chosen if known else ())
    ]


def _said(prompt: str, chance: random.Random) -> str:
    """Say what the prompt asks for: the first phrase that stands in it tells."""
    for phrase, say in SAID.items():
        if phrase in prompt:
            said = say(prompt, chance)
            return said if isinstance(said, str) else json.dumps(said)
    return _draft(prompt, chance)


def _draft(_: str, chance: random.Random) -> str:
    colours = chance.sample(("green", "blue", "red", "white", "black", "brown"), 3)
    counted = ", ".join(f"{chance.randint(1, 9)} are {colour}" for colour in colours)
    sure = chance.choice(("", "", "\nConfidence: 0.3", "\nConfidence: 0.9"))
    return f"Somebody walks along the quay and counts every boat: {counted} [1].{sure}"


def _judgement(prompt: str, chance: random.Random) -> Any:
    names = re.findall(r'"(\w+)": <0\.0 to 1\.0>', prompt)
    low = chance.choice((0.2, 0.3, 0.4, 0.5, 0.6, 0.8))
    scores = {name: round(chance.uniform(low, low + 0.2), 2) for name in names}
    point = {"criterion": names[0], "place": "the end", "advice": f"Say who, {low}."}
    sure = chance.choice(("low", "medium", "high", "high"))
    return {"feedback": [point], "criteria_scores": scores, "confidence": sure}


def _issues(prompt: str, chance: random.Random) -> Any:
    found = re.search(r'^Report: (".*")$', prompt, re.MULTILINE)
    lines = [line for line in json.loads(found[1]).splitlines() if line] if found else [""]
    aspects = chance.sample(("citation", "consistency", "clarity", "completeness"), 2)
    issues = [
        {"sentence": chance.choice(lines), "aspect": aspect, "source": 1, "advice": "Say which."}
        for aspect in aspects[: chance.choice((0, 1, 2))]
    ]
    ideas = ["See it as a Markov decision process."] if "suggestions" in prompt else []
    return {"issues": issues, "consistent": not issues, "suggestions": ideas}


def _report(_: str, chance: random.Random) -> str:
    lines = ["The pump costs 40,000 euros", "Gas costs 9,000 euros a year", "The boats are cold"]
    return "\n\n".join(f"{line} [{chance.choice((1, 1, 2, 3, 9))}]." for line in lines)


def _code(_: str, chance: random.Random) -> str:
    return f"```python\ndef double(n):\n    {chance.choice(CODES)}\n```"


def _tests(_: str, chance: random.Random) -> Any:
    cases = dict(chance.sample(sorted(CASES.items()), 3))
    tests = [{"call": call, "expected": value} for call, value in cases.items()]
    return {"reasoning": "by hand", "entry": "double", "tests": tests}


def _step(prompt: str, chance: random.Random) -> str:
    match chance.random():
        case small if small < 0.25:
            return f"I keep a test.\ntest\n```python\nassert {chance.choice(TESTS)}\n```"
        case middling if middling < 0.4:
            return "I look.\nrun\n```python\nprint(2 * 21)\n```"
        case middling if middling < 0.45:
            return "I wait."
    return f"I know it.\n[answer]\n{_code(prompt, chance)}"


def _answer(_: str, chance: random.Random) -> Any:
    # A share of its own for each question would need its number: a wide choice does.
    return {"reasoning": "counted", "answer": str(chance.choice((7, 7, 7, 7, 8, 8, 9)))}


TESTS = ("double(2) == 4", "double(0) == 0", "double(4) == 9")
SAID: dict[str, Callable[[str, random.Random], Any]] = {
    "Two people answered": lambda _, chance: {
        "reasoning": "compared",
        "same_meaning": chance.random() < 0.3,
    },
    "You judge a draft": _judgement,
    "You decide which way": lambda prompt, chance: {
        "reason": "the user wants that in the end",
        "mode": "code" if "double(n)" in prompt else chance.choice(("research", "neither")),
    },
    "You write tests": _tests,
    "You check a research report": _issues,
    "research report": _report,
    "previous report": _report,
    "`solution.py`": _code,
    "a plan that has failed": lambda _, __: "It fails again.",
    "STATUS: FAIL\nReflection:": lambda _, chance: f"Next time I add {chance.randint(1, 9)} less.",
    "An agent worked on a task. Judge": lambda _, chance: {
        "reasoning": "read",
        "correct": chance.random() < 0.4,
    },
    "Write the next step alone": _step,
    'first "reasoning", your reasoning': _answer,
}
