"""A model for measuring commands: what it writes and how it judges stands in what it is asked."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from commands.embedded import Place
from tests.e2e.conftest import Cli, commands_beside, worker
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint, failing

CRITERION = re.compile(r"^- ([a-z_]+): ", re.MULTILINE)
WORTH = re.compile(r"worth (\d\.\d+)")
FIRST_LIKED = "openai/likes-the-first"
NO_KEY = "openai/no-key"
JUDGE = "openai/judge"
ALONE = ("--no-guardrails", "--no-position", "--repeats", "1")


def replied(request: Body) -> Scripted:
    """Judge a draft by what it says it is worth, and answer a question as its words say.

    A draft that says "slow" is judged in a minute. An "easy" question is answered right at once,
    a "second" one in the revision alone, and a "spoiled" one right at first and wrong in the
    revision. Drafts are worth 0.5 and revisions 0.8.
    """
    prompt = request["messages"][-1]["content"]
    if prompt.startswith("You judge a draft"):
        return _judged(prompt, f"openai/{request['model']}")
    if "Reply with one JSON object" in prompt:
        return Scripted(json.dumps({"reasoning": "counted", "answer": _answer(prompt, "easy")}))
    if prompt.startswith("Important: the previous response"):
        return Scripted(f"Better, worth 0.8.\nAnswer: {_answer(prompt, 'easy', 'second')}")
    return Scripted(f"Thought over, worth 0.5.\nAnswer: {_answer(prompt, 'easy', 'spoiled')}")


def _answer(prompt: str, *right: str) -> str:
    return "42" if any(each in prompt for each in right) else "7"


def _judged(prompt: str, model: str) -> Scripted:
    if model == NO_KEY:
        return failing(401)
    draft = prompt.partition("\nDraft: ")[2].partition("\n")[0]
    names, worth = CRITERION.findall(prompt), WORTH.findall(draft)
    if not worth:
        return Scripted("I like it.")
    scores = dict.fromkeys(names, float(worth[-1]))
    if model == FIRST_LIKED:
        scores[names[0]] = round(scores[names[0]] + 0.1, 2)
    point = {"criterion": names[0], "place": "the end", "advice": "Say which one is meant."}
    said = {"feedback": [point], "criteria_scores": scores, "confidence": "high"}
    return Scripted(json.dumps(said), delay=60 if "slow" in draft else 0)


@contextmanager
def measured(place: Place, folder: Path) -> Iterator[tuple[dict[str, str], ScriptedEndpoint]]:
    """Serve with such a model, and yield the environment of commands beside it."""
    known = commands_beside(place, "measuring")
    with ScriptedEndpoint(by_seed=lambda _: replied) as endpoint:
        model = {"MULL_MODEL": "openai/writer", "OPENAI_API_BASE": endpoint.url}
        with worker({**known, **model, "OPENAI_API_KEY": "sk-secret"}, folder / "log"):
            yield known, endpoint


def written(file: Path, *lines: object) -> str:
    """Write JSON lines, and return the file's name."""
    file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return str(file)


def example(worth: float, label: object, **more: str) -> dict[str, object]:
    return {"query": "Why?", "draft": f"Because. It is worth {worth}.", "label": label, **more}


EXAMPLES = [
    example(0.9, 1, writer="openai/judge"),
    example(0.8, True, writer="openai/other"),
    example(0.6, "pass", writer="openai/judge"),
    example(0.3, "fail", writer="openai/other"),
    example(0.2, 0.1, writer="openai/judge"),
    example(0.1, False, writer="openai/other"),
]


def calibrated(cli: Cli, file: str, *arguments: str) -> dict[str, Any]:
    done = cli("calibrate", file, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
