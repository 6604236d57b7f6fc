"""Every example in Python in the docs, in README and in the notebook runs, in their order."""

import ast
import asyncio
import inspect
import json
import re
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

import mull
from tests.conftest import polling
from tests.scripted import ScriptedModel

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
NOTEBOOK = Path("examples", "mull.ipynb")


def answering() -> ScriptedModel:
    """Return a model that has an answer to each call of the examples."""
    return ScriptedModel(
        sample=lambda call: "391" if "17" in call.prompt else "no",
        write=lambda _: "One keeps every entry, and the other one drops the oldest.",
        judge=lambda _: 0.8,
        step=lambda _: "It was 391.",
    )


async def execute(source: str, known: dict[str, Any]) -> Any:
    """Run code in which `await` may stand outside of functions; return its last expression.

    A call without async blocks the loop of who calls it, which here is the worker's too.
    """
    if "mull.ask(" in source:
        return await asyncio.to_thread(asyncio.run, evaluate(source, known))
    return await evaluate(source, known)


async def evaluate(source: str, known: dict[str, Any]) -> Any:
    tree = ast.parse(source)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(
            ast.Assign([ast.Name("_", ast.Store())], last.value), last
        )
        ast.fix_missing_locations(tree)
    code = compile(tree, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, known)  # noqa: S307 - it is our own
    if inspect.iscoroutine(made):
        await made
    return known.get("_")


def blocks(file: str) -> list[str]:
    """List the examples; an id that is given is one of this test's own."""
    own = uuid.uuid4().hex
    # A chapter on workflows of one's own has tests of its own.
    text = Path(file).read_text(encoding="utf-8").partition("\n## From a workflow of")[0]
    found = BLOCK.findall(text)
    for name in ("is-91-prime", "caches", "sums"):
        found = [block.replace(f'"{name}"', f'"{name}-{own}"') for block in found]
    return found


async def test_every_example_of_the_docs_runs(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what it prints is as it says."""
    known: dict[str, Any] = {"mull": mull}
    model = answering()
    async with polling(client, model):
        for block in blocks("docs/python.md"):
            await execute(block, known)
        async with known["lifespan"](known["app"]):
            transport = httpx.ASGITransport(known["app"])
            async with httpx.AsyncClient(transport=transport, base_url="http://mull") as http:
                order = {"id": uuid.uuid4().hex, "question": "Is 91 prime?"}
                replies = await asyncio.gather(*(http.post("/verdict", json=order) for _ in "ab"))

    assert known["first"].id == known["again"].id
    assert [reply.json() for reply in replies] == [{"answer": "no", "doubt": ""}] * 2
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("391 1.0 ask-what-is-17-23-")
    assert printed[1] == "391"
    assert {"reflect 0.8", "accepted_by_person", "It was 391. 2", "max_responses"} <= set(printed)
    assert {"Is 91 prime? no", "Is 97 prime? no"} <= set(printed)


async def test_the_example_of_readme_runs(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the first that a reader sees."""
    async with polling(client, answering()):
        for block in blocks("README.md"):
            await execute(block, {})

    assert len(blocks("README.md")) == 1
    assert capsys.readouterr().out.startswith("391 1.0 ask-")


async def test_the_notebook_runs(client: Client) -> None:
    """Its cells in order, as IPython runs them; each record that ends a cell shows as a page."""
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    own = f"sums-{uuid.uuid4().hex}"
    cells = [
        "".join(cell["source"]).replace("notebook-sums", own)
        for cell in book["cells"]
        if cell["cell_type"] == "code"
    ]
    known: dict[str, Any] = {}
    shown = list[Any]()
    async with polling(client, answering()):
        for cell in cells:
            known.pop("_", None)
            shown.append(await execute(cell, known))

    assert (book["nbformat"], len(cells)) == (4, 6)
    pages = [record._repr_html_() for record in shown if hasattr(record, "_repr_html_")]
    assert len(pages) == 3
    assert all("<table>" in page for page in pages)
