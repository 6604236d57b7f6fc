"""The built-in tools: bounded arithmetic, the time, Python in the sandbox, and documents."""

import os
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.sandbox.port import TASK_QUEUE as CODE
from activities.sandbox.port import Sandbox
from activities.tools import port
from activities.tools.activity import ToolActivities
from activities.tools.builtin import calculate, current_time, python_tool
from activities.tools.functions import functions_of
from activities.tools.port import CallTask, ListTask, ToolOutcome
from tests.activities.documents.documents import Documents, pdf
from tests.patience import Stopwatch

NO_ARITHMETIC = "this is not an arithmetic expression"


async def called(
    activities: ToolActivities, name: str, arguments: dict[str, Any], docs: str | None = None
) -> ToolOutcome:
    run = ActivityEnvironment().run
    [tool] = (await run(activities.list_tools, ListTask(names=(name,), docs=docs))).tools
    task = CallTask(tool=tool, arguments=arguments, timeout_seconds=20, docs=docs)
    return await run(activities.call_tool, task)


@pytest.mark.parametrize(
    ("expression", "status", "said"),
    [
        ("2 * (3 + 4) ** 2", "ok", "98"),
        ("2 ** 100", "ok", "1267650600228229401496703205376"),
        ("(-1) ** 99999 + 10 ** -2", "ok", "-0.99"),
        (" 7 // 2 - -1", "ok", "4"),
        ("0.1 + 0.2", "ok", "0.30000000000000004"),
        ("round(sqrt(2) / pi, 3)", "ok", "0.45"),
        ("round(2.5)", "ok", "2"),
        ("max(1, 2.5, abs(-3))", "ok", "3"),
        ("-" * 499 + "1", "ok", "-1"),
        # To no more digits than a fraction has.
        (f"round(5, {-(10**9)})", "ok", "0.0"),
        (f"round(5, {10**9})", "ok", "5.0"),
        ("9**9**9", "error", "the number is too large"),
        ("10**3000 * 10**3000", "error", "the number is too large"),
        ("factorial(10**9)", "error", NO_ARITHMETIC),
        ("1e308 * 10", "error", "the result is not a finite number"),
        ("(-8) ** 0.5", "error", "must be real number, not complex"),
        ("1 / 0", "error", "division by zero"),
        ("__import__('os').system('true')", "error", NO_ARITHMETIC),
        ("().__class__", "error", NO_ARITHMETIC),
        ("[1] * 9", "error", NO_ARITHMETIC),
        ("'a' * 9", "error", NO_ARITHMETIC),
        ("True + 1", "error", NO_ARITHMETIC),
        ("sqrt + 1", "error", "must be real number, not builtin_function_or_method"),
        ("pi(1)", "error", "'float' object is not callable"),
        ("sqrt(2", "error", "SyntaxError: "),
        ("(" * 249 + "1" + ")" * 249, "error", "SyntaxError: "),
        ("", "error", "SyntaxError: "),
    ],
)
async def test_arithmetic(expression: str, status: str, said: str) -> None:
    """Whole numbers are exact; what is no arithmetic, or too much, is refused at once."""
    activities = ToolActivities(functions_of(calculate))
    watch = Stopwatch()

    outcome = await called(activities, "calculate", {"expression": expression})

    assert outcome.status == status
    assert outcome.content == said if status == "ok" else said in outcome.content
    assert watch.seconds < 2


@pytest.mark.parametrize(
    ("zone", "status", "ends"),
    [
        ("UTC", "ok", "+00:00"),
        ("Asia/Kolkata", "ok", "+05:30"),
        ("../../etc/passwd", "error", "/passwd"),
        ("Moon", "error", "Moon'"),
    ],
)
async def test_the_time(zone: str, status: str, ends: str) -> None:
    """With its weekday and its distance from UTC."""
    activities = ToolActivities(functions_of(current_time))

    outcome = await called(activities, "current_time", {"timezone": zone})

    assert outcome.status == status
    assert outcome.content.endswith(ends)


async def test_python_runs_in_the_sandbox(sandbox: Sandbox) -> None:
    """What it prints is the result; a program that fails is an error with its traceback."""
    activities = ToolActivities(functions_of(python_tool(sandbox)))

    ran = await called(activities, "run_python", {"code": "print(input() * 2)", "input": "ab"})
    failed = await called(activities, "run_python", {"code": "print('so far')\n1 / 0"})

    assert (ran.status, ran.content) == ("ok", "abab")
    assert failed.status == "error"
    assert failed.content.startswith("the program ended with exit code 1\nso far\n")
    assert failed.content.endswith("ZeroDivisionError: division by zero")


async def test_where_tools_are_served_python_is_listed_but_not_run() -> None:
    """Its calls go to the queue for code, where no tool's secrets are."""
    activities = ToolActivities(functions_of(calculate, python_tool(None)))
    listed = await ActivityEnvironment().run(activities.list_tools, ListTask())

    assert {tool.name: port.queue_of(tool) for tool in listed.tools} == {
        "calculate": port.TASK_QUEUE,
        "run_python": CODE,
    }
    outcome = await called(activities, "run_python", {"code": "print(1)"})
    assert (outcome.status, outcome.content) == ("error", "this worker has no sandbox")


@pytest.fixture
def library(documents: Documents) -> ToolActivities:
    """The tools for a folder with a text, a PDF, something hidden, and a secret beside it."""
    documents.write("tides.md", "# Tides\n\nThe moon pulls the sea.\n")
    documents.write("scan.pdf", pdf(["Spring tides follow the new moon."]))
    documents.write(".hidden/key.txt", "the key of the hidden folder")
    (documents.root / "secret.txt").write_text("the key beside the folder")
    (documents.folder / "link.txt").symlink_to(documents.root / "secret.txt")
    return ToolActivities({}, (), documents.retriever)


async def test_documents_are_found_and_read(library: ToolActivities) -> None:
    """Each passage has its place."""
    found = await called(library, "search_documents", {"query": "the sea"}, "docs")
    read = await called(library, "read_document", {"path": "tides.md"}, "docs")
    scanned = await called(library, "read_document", {"path": "scan.pdf"}, "docs")

    text = "tides.md:1-3\n# Tides\n\nThe moon pulls the sea."
    assert found.content == text
    assert read.content == text
    assert scanned.content == "scan.pdf, page 1:1\nSpring tides follow the new moon."


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gone.md", "can't be read"),
        ("../secret.txt", "links that lead out"),
        ("/etc/passwd", "links that lead out"),
        ("link.txt", "links that lead out"),
        (".hidden/key.txt", "links to hidden or installed files"),
        (".", "not regular files"),
        ("tides.md\0", "embedded null byte"),
    ],
)
async def test_nothing_but_the_documents_is_read(
    library: ToolActivities, path: str, said: str
) -> None:
    """A path that leads out of the folder, or to what is hidden, is refused."""
    outcome = await called(library, "read_document", {"path": path}, "docs")

    assert outcome.status == "error"
    assert said in outcome.content
    assert "key" not in outcome.content.replace("key.txt", "")


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd"])
async def test_a_path_is_judged_before_it_is_opened(
    library: ToolActivities, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Also on a system that does not tell which file was opened."""

    def unknown(name: str) -> str:
        raise FileNotFoundError(name)

    monkeypatch.setattr(os, "readlink", unknown)

    assert (await called(library, "read_document", {"path": path}, "docs")).status == "error"


async def test_another_folder_than_the_operators_is_refused(
    library: ToolActivities, tmp_path: Path
) -> None:
    """In the same words as elsewhere."""
    outcome = await called(library, "search_documents", {"query": "a"}, str(tmp_path))

    assert outcome.status == "error"
    assert "is not under one that MULL_DOCUMENTS allows on the worker" in outcome.content


async def test_without_a_folder_there_are_no_tools_for_documents(library: ToolActivities) -> None:
    """A turn that names none is not offered them."""
    assert (await ActivityEnvironment().run(library.list_tools, ListTask())).tools == ()
