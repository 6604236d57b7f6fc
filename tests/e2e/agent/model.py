"""A model for the agent: what it writes and what it finds stands in what it is asked."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from commands.embedded import Place
from tests.activities.test_turn_calls import calling
from tests.e2e.conftest import commands_beside, worker
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint, failing

KAFKA = "Kafka keeps records in a log, for as long as it is told to.\n"
REPORTS = ("Kafka forgets records after a day [1].", "Kafka keeps records in a log [1].")
BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
MOST_CALLS = 500
IDEA = "It could be seen as a ledger."


def replied(request: Body) -> Scripted:
    """Do what the prompt's words say: "Compare" is research, "add" is code, all else neither.

    What is "stubborn" is never mended, what is "slow" is mended in a minute, nobody is let in with
    "keyless", what is "endless" is cut off, and one test of what is "quirky" is wrong.
    """
    prompt = request["messages"][-1]["content"]
    if "ready?" in prompt:
        return Scripted(json.dumps({"reasoning": "it is asked", "answer": "yes"}))
    if "keyless" in prompt:
        return failing(401)
    return next(reply(prompt) for start, reply in REPLIES.items() if prompt.startswith(start))


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
    delay = 60 if "slow" in prompt else 0
    reason = "length" if "endless" in prompt else "stop"
    text = wrong if "stubborn" in prompt else right
    return Scripted(text, delay=delay, finish_reason=reason)


def _fenced(code: str) -> str:
    return f"```python\n{code}```"


REPLIES: dict[str, Callable[[str], Scripted]] = {
    "You decide which way": _routed,
    "You check a research report": _reflected,
    "You write tests": _tests,
    "Write a research report": lambda _: Scripted(REPORTS[0]),
    "Important: the previous report": lambda prompt: _mended(prompt, *REPORTS),
    "Write Python code": lambda _: Scripted(_fenced(BROKEN)),
    "Python code that was written": lambda prompt: _mended(prompt, _fenced(BROKEN), _fenced(FIXED)),
    "Search": lambda _: calling(("search_documents", json.dumps({"query": "Kafka records"}))),
    "What search_documents returned": Scripted,
}


@contextmanager
def working(place: Place, folder: Path) -> Iterator[dict[str, str]]:
    """Serve with such a model and one folder of documents; yield the environment of commands."""
    documents = folder / "documents"
    documents.mkdir()
    (documents / "kafka.md").write_text(KAFKA)
    known = {**commands_beside(place, "agent"), "MULL_DOCUMENTS": str(documents)}
    with ScriptedEndpoint([replied] * MOST_CALLS) as endpoint:
        model = {"MULL_MODEL": "openai/writer", "OPENAI_API_BASE": endpoint.url}
        more = {"OPENAI_API_KEY": "sk-secret", "MULL_CACHE": str(folder)}
        with worker({**known, **model, **more}, folder / "log"):
            yield known
