"""The client's keywords, as tools that read code know them, and what the package costs at start."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import keywords
from mull.loops import LOOPS

CALLS = """\
import mull
from mull.batch.request import Variant
from mull.turn.result import ToolTurnResult

VARIANT = Variant(name="ask", workflow="SelfConsistencyWorkflow")


async def follow() -> None:
    async with mull.connect() as m:
        run = await m.ask("Is 91 prime?", answers="number", preset="thrifty")
        share: float = run.consensus_confidence
        turn = await m.start("turn", message="Hello", tools=["python"])
        async for seen in turn:
            text: str | None = seen.answer
        same: mull.Run[mull.MultiPathResult] = await m.start(mull.MultiPathRequest(prompt="Hello"))
    draft = mull.reflect("A note", criteria=[{"name": "tone", "meaning": "It is courteous."}])
    score: float | None = draft.score
    asked = mull.SelfConsistencyRequest(question="Is 91 prime?", answers="number")
    answer: str | None = mull.ask(asked, id="x", check=True).final_answer
    mull.reflect(mull.ReflectOnResultRequest(query="A note"))
    mull.turn(mull.ToolTurnRequest(message="Hello"))
    mull.reflexion(mull.ReflexionRequest(task="shares", environment="code"))
    mull.batch(mull.BatchRequest(variants=(VARIANT,), items=({"question": "Is 91 prime?"},)))
    mull.batch([{"question": "Is 91 prime?"}], variants=[VARIANT])
    answered: ToolTurnResult = mull.turn("Hello", messages=[{"role": "user", "content": "Hi"}])
"""
# Each line is wrong, and both tools say so there.
WRONG = """\
import mull

mull.ask("Is 91 prime?", answers="nummer")
mull.ask("Is 91 prime?", max_response=5)
mull.ask(91)
mull.turn("Hello", max_steps="5")
mull.ask("Is 91 prime?").final_answre
mull.reflexion("shares", environment=5)
"""
LINES = [3, 4, 5, 6, 7, 8]


def test_the_keywords_are_those_of_the_requests() -> None:
    """Otherwise: python -m bench.keywords."""
    assert keywords.PLACE.read_text(encoding="utf-8") == keywords.written()
    methods = {"ask", "reflect", "agent", "turn", "reflexion", "batch"}
    assert methods == {loop.command for loop in LOOPS} - {"retroformer", "train", "session"}


Place = tuple[str, int]


def by_mypy(folder: Path) -> set[Place]:
    # Errors of an installed package are not shown. `make lint` writes the other cache meanwhile.
    flags = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={folder}/cache"]
    command = [sys.executable, "-m", "mypy", *flags, *map(str, folder.glob("*.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line.split(":") for line in done.stdout.splitlines() if ": error:" in line]
    return {(Path(file).name, int(line)) for file, line, *_ in errors}


def by_pyright(folder: Path) -> set[Place]:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level=error", str(folder)]
    done = subprocess.run(
        [*command, f"--pythonpath={sys.executable}"], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in found}


@pytest.mark.parametrize("checked_by", [by_mypy, by_pyright])
def test_calls_are_checked(
    checked_by: Callable[[Path], set[Place]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
) -> None:
    """Names, choices and types of keywords, and the fields of what a call returns."""
    monkeypatch.setenv("MYPYPATH", str(root))
    (tmp_path / "right.py").write_text(CALLS)
    (tmp_path / "wrong.py").write_text(WRONG)

    assert checked_by(tmp_path) == {("wrong.py", line) for line in LINES}
