"""A model for the command line: the seed and the words that it is asked with say what it does."""

import json
import re
from collections.abc import Callable

from tests.activities.test_turn_calls import calling
from tests.scripted import CRITERION
from tests.scripted_endpoint import Body, Reply, Scripted, failing

# The seed that a test asks with chooses what the model does.
AGREE, SPLIT, SLOW, NO_KEY = 0, 1_000, 2_000, 3_000
# Drafts that get better, that stay low, and whose revision takes a minute.
IMPROVES, STAYS_LOW, REVISES_SLOWLY = 5_000, 6_000, 7_000
# Drafts that are cut off, and whose judge is not sure.
CUT_OFF, UNSURE = 9_000, 10_000
# Calls of a tool, and then what they returned.
CALCULATES = 8_000
EXPRESSIONS = ("40 + 2", " + ".join(["1000"] * 60))
# A call whose arguments hide a letter, and look like a part of a page.
HIDES, HIDDEN = 11_000, "1\u2060 + 1</pre><script>alert(1)</script>"
WORTH = {
    IMPROVES: (0.4, 0.75), STAYS_LOW: (0.4, 0.45, 0.5), REVISES_SLOWLY: (0.4, 0.75),
    CUT_OFF: (0.8,), UNSURE: (0.8,),
}  # fmt: skip
# Judges: of one the key is refused, and the other gives the first criterion more.
KEYLESS_JUDGE, FIRST_LIKED, JUDGE = "openai/no-key", "openai/likes-the-first", "openai/judge"

KAFKA = "Kafka keeps records in a log, for as long as it is told to.\n"
REPORTS = ("Kafka forgets records after a day [1].", "Kafka keeps records in a log [1].")
BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
IDEA = "It could be seen as a ledger."


def replied(request: Body) -> Scripted:
    """Do what the request says.

    A draft is judged by what it says it is worth. The prompt of an agent is research where it says
    "Compare", code where it says "add", and else neither; what is "stubborn" is never mended, what
    is "slow" takes a minute, nobody is let in with "keyless", what is "endless" is cut off, and one
    test of what is "quirky" is wrong. Of questions on 6 times 7 an "easy" one is answered right at
    once, a "second" one in the revision alone, and a "spoiled" one right at first and wrong in the
    revision. All others are answered by the seed.
    """
    prompt = str(request["messages"][-1]["content"])
    if "keyless" in prompt:
        return failing(401)
    if prompt.startswith("You judge a draft"):
        return _judged(prompt, request)
    for start, reply in AGENT.items():
        if prompt.startswith(start):
            return reply(prompt)
    if "6 times 7" in prompt or "easy" in prompt:
        return _answered(prompt)
    return _seeded(request, request.get("seed") or AGREE)


def reply(seed: int) -> Reply:
    """Reply to a request as if it had another seed."""
    return lambda request: replied({**request, "seed": seed})


def _judged(prompt: str, request: Body) -> Scripted:
    model = f"openai/{request['model']}"
    if model == KEYLESS_JUDGE:
        return failing(401)
    draft = prompt.partition("\nDraft: ")[2].partition("\n")[0]
    names, worth = CRITERION.findall(prompt), re.findall(r"worth (\d\.\d+)", draft)
    if not worth:
        return Scripted("I like it.")
    scores = dict.fromkeys(names, float(worth[-1]))
    if model == FIRST_LIKED:
        scores[names[0]] = round(scores[names[0]] + 0.1, 2)
    point = {"criterion": names[0], "place": "the end", "advice": "Say which release is meant."}
    said = {"feedback": [point], "criteria_scores": scores}
    said["confidence"] = "low" if "I guess" in draft else "high"
    return Scripted(json.dumps(said), delay=60 if "slow" in draft else 0)


def _answered(prompt: str) -> Scripted:
    def answer(*right: str) -> str:
        return "42" if any(each in prompt for each in right) else "7"

    if "Reply with one JSON object" in prompt:
        return Scripted(json.dumps({"reasoning": "counted", "answer": answer("easy")}))
    if prompt.startswith("Important: the previous response"):
        return Scripted(f"Better, worth 0.8.\nAnswer: {answer('easy', 'second')}")
    return Scripted(f"Thought over, worth 0.5.\nAnswer: {answer('easy', 'spoiled')}")


def _seeded(request: Body, seed: int) -> Scripted:
    behaviour, index = seed // 1_000 * 1_000, seed % 1_000
    if behaviour == NO_KEY:
        return failing(401)
    if behaviour == CALCULATES:
        told = [one["content"] for one in request["messages"] if one["role"] == "tool"]
        asked = [("calculate", json.dumps({"expression": each})) for each in EXPRESSIONS]
        return Scripted(text=" ".join(told)) if told else calling(*asked)
    if behaviour == HIDES:
        hiding = calling(("calculate", json.dumps({"expression": HIDDEN})))
        called = any(one["role"] == "tool" for one in request["messages"])
        return Scripted("Done.") if called else hiding
    if behaviour in WORTH:
        worth = WORTH[behaviour][min(index, len(WORTH[behaviour]) - 1)]
        guess = "I guess: draft" if behaviour == UNSURE else "Draft"
        text = f"{guess} {index + 1}, worth {worth}."
        if behaviour == CUT_OFF:
            return Scripted(text.removesuffix("."), finish_reason="length")
        return Scripted(text, delay=60 if behaviour == REVISES_SLOWLY and index else 0)
    answer = "129" if behaviour == AGREE else str(seed)
    text = json.dumps({"reasoning": "summed", "answer": answer})
    return Scripted(text, delay=60 if behaviour == SLOW else 0)


def _routed(prompt: str) -> Scripted:
    mode = "research" if "Compare" in prompt else "code" if "add" in prompt else "neither"
    return Scripted(json.dumps({"reason": f"The words ask for {mode}.", "mode": mode}))


def _reflected(prompt: str) -> Scripted:
    wrong = f'Report: "{REPORTS[0]}' in prompt
    issue = {
        "sentence": REPORTS[0],
        "aspect": "citation",
        "source": 1,
        "advice": "Say how long it keeps them, as source 1 does.",
    }
    found = {"issues": [issue] if wrong else [], "consistent": not wrong, "suggestions": [IDEA]}
    return Scripted(json.dumps(found))


def _tests(prompt: str) -> Scripted:
    cases = [("add(1, 2)", "3"), ("add(0, 0)", "0"), ("add(-1, 1)", "0")]
    cases += [("add(2, 2)", "5")] if "quirky" in prompt else []
    tests = [{"call": call, "expected": value} for call, value in cases]
    return Scripted(json.dumps({"reasoning": "sums", "entry": "add", "tests": tests}))


def _mended(prompt: str, wrong: str, right: str) -> Scripted:
    reason = "length" if "endless" in prompt else "stop"
    text = wrong if "stubborn" in prompt else right
    return Scripted(text, delay=60 if "slow" in prompt else 0, finish_reason=reason)


def _fenced(code: str) -> str:
    return f"```python\n{code}```"


AGENT: dict[str, Callable[[str], Scripted]] = {
    "You decide which way": _routed,
    "You check a research report": _reflected,
    "You write tests": _tests,
    "Write a research report": lambda _: Scripted(REPORTS[0]),
    "Important: the previous report": lambda prompt: _mended(prompt, *REPORTS),
    "Write Python code": lambda _: Scripted(_fenced(BROKEN)),
    "Python code that was written": lambda prompt: _mended(prompt, _fenced(BROKEN), _fenced(FIXED)),
    "Search it": lambda _: calling(("search_documents", json.dumps({"query": "Kafka records"}))),
    "What search_documents returned": Scripted,
}
