"""The tables of the documentation name what a user can choose, and what a run can end with.

And of what is built from the source of agents each row names where it is, and a test that exists.
"""

import ast
import inspect
import re
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import pytest

from mull.agents import result as tried
from mull.agents import training_result as trained
from mull.agents.request import Strategy
from mull.batch.result import BatchStopReason
from mull.critique import result as critique
from mull.critique.criteria import PRESETS
from mull.critique.guardrails import default_guardrails
from mull.multipath import result as multipath
from mull.sampling import rules
from mull.turn import result as turned

DOCS = Path(__file__).parents[2] / "docs"
DRAFTED = get_args(critique.StopReason)
RULES, GUARDRAILS = get_args(rules.Rule), default_guardrails()
# By file, heading, and what the table, list item or paragraph begins with: the names it must have.
NAMED = [
    ("guide.md", "When sampling stops", "| rule |", RULES),
    ("guide.md", "When sampling stops", "`--preset", rules.STOPPING_PRESETS),
    ("guide.md", "How a draft is judged and revised", "| it ends as |", DRAFTED),
    ("guide.md", "How a draft is judged and revised", "- **Criteria**", PRESETS),
    ("guide.md", "How a draft is judged and revised", "- **Guardrails**", GUARDRAILS),
    ("glossary.md", "Stopping", "| rule |", RULES),
    ("glossary.md", "Stopping", "**Preset.**", rules.STOPPING_PRESETS),
    ("glossary.md", "Stopping", "| stop reason |", get_args(rules.StopReason)),
    ("glossary.md", "Reflecting", "| guardrail |", GUARDRAILS),
    ("glossary.md", "Reflecting", "Stop reasons", DRAFTED),
    ("glossary.md", "The agent", "Stop reasons", get_args(multipath.StopReason)),
    ("glossary.md", "The turn", "Stop reasons", get_args(turned.StopReason)),
    ("glossary.md", "Learning from failures", "Stop reasons", get_args(tried.StopReason)),
    ("glossary.md", "Training reflections", "Stop reasons", get_args(trained.StopReason)),
    ("training.md", "The steps", "| `--method`", get_args(trained.Method)),
    ("glossary.md", "Learning from failures", "**Episode.**", get_args(tried.EpisodeEnd)),
    ("glossary.md", "Learning from failures", "**Best episode.**", get_args(tried.Status)),
    ("glossary.md", "Learning from failures", "**Strategy.**", get_args(Strategy)),
    ("glossary.md", "Measuring a judge, and a method", "**Batch.**", get_args(BatchStopReason)),
]


def names_in(file: str, heading: str, start: str) -> list[str]:
    """List what a part of a chapter names as code; of a table only what its first column names."""
    chapters = re.split(r"^## ", (DOCS / file).read_text("utf-8"), flags=re.MULTILINE)
    [chapter] = [chapter for chapter in chapters if chapter.startswith(f"{heading}\n")]
    parts = re.split(r"\n\n|\n(?=- )", chapter)
    [part] = [part for part in parts if part.startswith(start)]
    if start.startswith("|"):
        part = "\n".join(row.split("|")[1] for row in part.splitlines())
    return re.findall(r"`(?:--preset )?(\w+)`", part)


@pytest.mark.parametrize(
    ("file", "heading", "start", "names"), NAMED, ids=[" ".join(row[:3]) for row in NAMED]
)
def test_every_name_is_documented(
    file: str, heading: str, start: str, names: tuple[str, ...]
) -> None:
    """The table, list item or paragraph names each of them as code; a table names nothing else."""
    found = names_in(file, heading, start)

    assert set(names) - set(found) == set()
    assert not start.startswith("|") or set(found) == set(names)


TESTS = Path(__file__).parents[1]
PLACE = re.compile(r"`((?:mull|activities|workflows)\.[\w.]+)`")
NAMED_TEST = re.compile(r"`(test_\w+)`")


def agent_rows() -> list[str]:
    """List the rows of the tables about agents, but for those of headings."""
    text = (DOCS / "faithful-to-the-sources.md").read_text("utf-8")
    chapter = text.partition("\n# ReflexionWorkflow\n")[2].partition("\n# ")[0]
    taken = chapter.partition("\n## Where the specification breaks")[0]
    tables = re.findall(r"^\|.*\n\|-.*\n((?:\|.*\n)+)", taken, re.MULTILINE)
    return [row for table in tables for row in table.splitlines()]


def stands(name: str) -> bool:
    """Tell whether a module has this class, method, function or field."""
    owner, _, last = name.rpartition(".")
    found = resolve_name(owner)
    return hasattr(found, last) or (
        inspect.isclass(found)
        and any(last in inspect.get_annotations(kind) for kind in found.__mro__)
    )


def written_tests() -> set[str]:
    """Name every test function."""
    return {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_what_is_taken_for_agents_is_where_the_table_says() -> None:
    """Each row names a place that exists, and a test that does."""
    rows, written = agent_rows(), written_tests()

    assert len(rows) > 60
    for row in rows:
        assert PLACE.search(row) or "their fields" in row, row
        assert NAMED_TEST.search(row), row
        assert [name for name in PLACE.findall(row) if not stands(name)] == []
        assert set(NAMED_TEST.findall(row)) <= written, row


def test_the_tables_for_agents_have_every_equation_and_figure() -> None:
    """Equations 1 to 9, and the figures that say in which order things are called.

    Those of Reflexion are 4 to 11, those of Retroformer 14 to 26.
    """
    starts = [row.split("|")[1].strip() for row in agent_rows()]

    for number in range(1, 10):
        assert any(start.startswith(f"{number}: ") for start in starts), number
    for number in (*range(4, 12), *range(14, 27)):
        assert any(start.startswith(f"{number}, ") for start in starts), number
