"""Measure the house: its lines, files and names, and how many files a question runs through.

    python -m bench.house             the tables
    python -m bench.house --no-walk   without starting a server, a worker and three runs

Lines of code are those that are not blank, a comment or a docstring. A question runs through a file
if it executes a line of a function in it, in the starter or in a running worker, outside of
imports, which are done before.
"""

import ast
import asyncio
import inspect
import io
import json
import logging
import os
import runpy
import signal
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from bench import server
from bench.mutants import ROOT, tracked
from tests import forks
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

SMALL = 40
TRACED = "MULL_HOUSE_TRACED"
QUESTIONS: dict[str, list[str]] = {
    "ask": ["ask", "What is 2 + 3?", "--answers", "number", "--max-responses", "5"],
    "reflect": ["reflect", "Compare two designs of a cache in detail.", "--min-complexity", "0"],
    "agent": [
        "agent",
        "What does a heat pump cost?",
        "--mode",
        "research",
        "--docs",
        "examples/documents",
    ],
}
# Files of one loop alone, by the beginnings of paths.
LOOPS = {
    "ask": ("mull/sampling/", "activities/sampling.py", "workflows/self_consistency.py"),
    "reflect": (
        "mull/critique/",
        "activities/critique.py",
        "workflows/reflect_on_result.py",
    ),
    "agent": ("mull/multipath/", "activities/multipath.py", "workflows/multi_path.py"),
    "turn": (
        "mull/turn/",
        "activities/turn.py",
        "activities/tools/",
        "workflows/tool_turn.py",
        "workflows/session.py",
        "commands/turn.py",
        "commands/sessions.py",
    ),
    "reflexion": (
        "mull/agents/loop.py",
        "mull/agents/memory.py",
        "mull/agents/prompts.py",
        "mull/agents/re",
        "mull/agents/sheet.py",
        "activities/agents.py",
        "activities/environments/",
        "workflows/reflexion.py",
        "workflows/retroformer.py",
        "commands/reflexion.py",
        "commands/memories.py",
    ),
    "train": (
        "mull/agents/rating.py",
        "mull/agents/training",
        "activities/training/",
        "workflows/training.py",
        "commands/retroformer.py",
    ),
    "batch": (
        "mull/batch/",
        "workflows/batch.py",
        "commands/batch.py",
        "commands/lines.py",
        "commands/rows.py",
    ),
}


def product() -> list[Path]:
    """List the files of the product, by their paths from the root."""
    return [file for file in tracked("*.py") if file.parts[0] not in {"tests", "examples"}]


def lines_of(path: Path) -> int:
    """Count the lines of a file, by its path from the root."""
    return len((ROOT / path).read_bytes().splitlines())


def code_lines(path: Path) -> int:
    """Count a file's lines of code."""
    source = (ROOT / path).read_bytes()
    told = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    empty = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }  # fmt: skip
    code = {
        line
        for token in tokenize.tokenize(io.BytesIO(source).readline)
        if token.type not in empty
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - told)


def code_of_loops(files: list[Path]) -> dict[str, int]:
    """Count the lines of code that belong to one loop alone."""
    return {
        name: sum(code_lines(path) for path in files if str(path).startswith(own))
        for name, own in LOOPS.items()
    }


def sizes(files: list[Path]) -> Iterator[tuple[str, object]]:
    """Measure lines, files and folders."""
    lines = {path: lines_of(path) for path in files}
    depths = Counter(len(path.parts) - 1 for path in files if "inside" not in path.parts)
    yield "product: lines", sum(lines.values())
    yield (
        "product: lines of code, without bench",
        sum(code_lines(path) for path in files if path.parts[0] != "bench"),
    )
    yield "product: lines of code of one loop alone", code_of_loops(files)
    yield "product: classes with fields, and their fields", fields(files)
    yield "product: files", len(files)
    yield "product: folders", len({path.parent for path in files})
    yield "product: files by folders above them", dict(sorted(depths.items()))
    yield (
        f"product: files under {SMALL} lines",
        sum(count < SMALL and path.name != "__init__.py" for path, count in lines.items()),
    )
    largest = max(lines, key=lambda path: lines[path])
    yield "product: the longest file", f"{largest} ({lines[largest]})"
    yield "tests: lines of Python", sum(map(lines_of, (ROOT / "tests").rglob("*.py")))


def fields(files: list[Path]) -> tuple[int, int]:
    """Count the classes that have fields with types, and these fields."""
    found = [
        sum(isinstance(line, ast.AnnAssign) for line in node.body)
        for path in files
        for node in ast.walk(ast.parse((ROOT / path).read_bytes()))
        if isinstance(node, ast.ClassDef)
    ]
    return sum(map(bool, found)), sum(found)


def names(files: list[Path]) -> Iterator[tuple[str, object]]:
    """Count names in several places, and private helpers that are named once."""
    classes: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    helpers = once = 0
    for path in files:
        tree = ast.parse((ROOT / path).read_bytes())
        found = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        classes.update(node.name for node in found)
        defined = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        functions.update(defined)
        used = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        private = [name for name in defined if name.startswith("_")]
        helpers += len(private)
        once += sum(used[name] <= 1 for name in private)
    yield "classes named in several places", _several(classes)
    yield "functions named in several places", _several(functions)
    yield "private functions, and those of them that are named once", f"{helpers}, {once}"


def _several(found: Counter[str]) -> str:
    several = {name: count for name, count in found.items() if count > 1}
    shown = ", ".join(f"{name} {count}" for name, count in sorted(several.items())[:40])
    return f"{len(several)} ({shown})" if several else "0"


def trace(program: str, arguments: list[str]) -> None:
    """Run a program of the house, and note every file in which a function runs."""
    seen: set[str] = set()
    ended = threading.Event()
    place, main = Path(os.environ[TRACED], f"{os.getpid()}.txt"), str(ROOT / program)

    def imports(frame: FrameType | None) -> bool:
        """Return True while a module is imported: its calls do not count for a question."""
        while frame is not None:
            code = frame.f_code
            if code.co_name == "<module>" and code.co_filename not in {main, __file__}:
                return code.co_filename.startswith(str(ROOT))
            frame = frame.f_back
        return False

    def profile(frame: FrameType, event: str, _: object) -> None:
        name, flags = frame.f_code.co_filename, frame.f_code.co_flags
        if event != "call" or ended.is_set() or name in seen or not flags & inspect.CO_OPTIMIZED:
            return
        if name.startswith(str(ROOT)) and not imports(frame):
            seen.add(name)
            with place.open("a", encoding="utf-8") as output:
                output.write(f"{name}\n")

    def start(*_: object) -> None:
        # A watched worker is slow, on a busy machine so slow that it warns: do not count that.
        logging.disable()
        threading.setprofile(profile)
        sys.setprofile(profile)

    sys.argv = [program, *arguments]
    # A worker's start and end do not count for a question.
    if program == "worker.py":
        signal.signal(signal.SIGUSR1, start)
        signal.signal(signal.SIGUSR2, lambda *_: ended.set())
    else:
        start()
    runpy.run_path(main, run_name="__main__")


def replied(request: Body) -> Scripted:
    """Answer, write, judge and reflect so that each question ends well at once."""
    prompt = request["messages"][-1]["content"]
    if prompt.startswith("You judge a draft"):
        scores = dict.fromkeys(("completeness", "correctness", "clarity"), 0.9)
        judged = {"feedback": [], "criteria_scores": scores, "confidence": "high"}
        return Scripted(text=json.dumps(judged))
    if prompt.startswith("You check a research report"):
        found = {"issues": [], "consistent": True, "suggestions": []}
        return Scripted(text=json.dumps(found))
    if prompt.startswith("Write a research report"):
        return Scripted(text="A heat pump costs money [1].")
    return Scripted(text=json.dumps({"reasoning": "summed", "answer": "5"}))


async def walk() -> dict[str, list[str]]:
    """Run one question of each kind against a scripted model, and list the files it ran through."""
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder, ScriptedEndpoint([replied] * 500) as endpoint:
        own = {
            "MULL_MODEL": "openai/scripted",
            "MULL_DOCUMENTS": str(ROOT / "examples"),
            "MULL_CACHE": str(Path(folder, "cache")),
            "OPENAI_API_BASE": endpoint.url,
            "OPENAI_API_KEY": "none",
        }
        async with server():
            for name, words in QUESTIONS.items():
                found[name] = await _walk(Path(folder, name), words, own)
    return found


async def _walk(folder: Path, words: list[str], own: dict[str, str]) -> list[str]:
    folder.mkdir()
    run, log = ["bench/house.py", "--trace"], folder / "log"
    known = {**os.environ, **own, TRACED: str(folder)}
    worker = forks.start([*run, "worker.py", "--queues", "mull,llm"], known, log, log)
    try:
        # For a minute the server still lists an ended worker as a poller.
        while not log.exists() or b"serving" not in log.read_bytes():  # noqa: ASYNC110 - a log
            await asyncio.sleep(0.2)
        os.kill(worker.pid or 0, signal.SIGUSR1)
        starter = forks.start([*run, "starter.py", *words], known, log, log)
        await asyncio.to_thread(starter.join)
        os.kill(worker.pid or 0, signal.SIGUSR2)
        await asyncio.sleep(0.5)
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.join)
    if starter.exitcode != 0:
        end = log.read_text(errors="replace")[-2_000:]
        raise RuntimeError(f"{words[0]} ended with {starter.exitcode}: {end}")
    lines = {line for path in folder.glob("*.txt") for line in path.read_text().splitlines()}
    names = {str(Path(line).relative_to(ROOT)) for line in lines}
    return sorted(name for name in names if not name.startswith(("bench/", "tests/", ".")))


def main(arguments: list[str]) -> None:
    """Print the tables."""
    if arguments[:1] == ["--trace"]:
        trace(arguments[1], arguments[2:])
        return
    files = product()
    for name, value in (*sizes(files), *names(files)):
        print(f"{name:<60} {value}")
    if "--no-walk" not in arguments:
        for name, through in asyncio.run(walk()).items():
            print(f"\nfiles that one `{name}` runs through: {len(through)}")
            print("  " + "\n  ".join(through))


if __name__ == "__main__":
    main(sys.argv[1:])
