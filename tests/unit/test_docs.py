"""The tables of the documentation name what a user can choose, and what a run can end with."""

import re
from pathlib import Path
from typing import get_args

import pytest

from reflection.batch.result import BatchStopReason
from reflection.critique import result as critique
from reflection.critique.criteria import PRESETS
from reflection.critique.guardrails import default_guardrails
from reflection.multipath import result as multipath
from reflection.sampling import rules
from reflection.turn import result as turned

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
