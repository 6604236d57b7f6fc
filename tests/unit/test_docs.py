"""The tables of the documentation name what a user can choose, and what a run can end with."""

import re
from pathlib import Path
from typing import get_args

import pytest

from reflection.batch.result import BatchStopReason
from reflection.critique import result as critique
from reflection.critique.criteria import PRESETS
from reflection.critique.guardrails import DEFAULT, known_guardrails
from reflection.multipath import result as multipath
from reflection.sampling import rules

DOCS = Path(__file__).parents[2] / "docs"
GUARDRAILS = {name for name in known_guardrails() if name != DEFAULT}
DRAFTED = get_args(critique.StopReason)
# By file and heading: the names that its table or list must have.
NAMED: list[tuple[str, str, set[str]]] = [
    ("guide.md", "When sampling stops", {*rules.RULES, *rules.STOPPING_PRESETS}),
    ("guide.md", "How a draft is judged and revised", {*GUARDRAILS, *PRESETS, *DRAFTED}),
    ("glossary.md", "Stopping", {*rules.RULES, *get_args(rules.StopReason)}),
    ("glossary.md", "Reflecting", {*GUARDRAILS, *DRAFTED}),
    ("glossary.md", "The agent", {*get_args(multipath.StopReason)}),
    ("glossary.md", "Measuring a judge, and a method", {*get_args(BatchStopReason)}),
]


@pytest.mark.parametrize(("file", "heading", "names"), NAMED)
def test_every_name_is_documented(file: str, heading: str, names: set[str]) -> None:
    """The chapter names each of them as code."""
    chapters = re.split(r"^## ", (DOCS / file).read_text("utf-8"), flags=re.MULTILINE)
    [chapter] = [chapter for chapter in chapters if chapter.startswith(f"{heading}\n")]

    assert names - set(re.findall(r"`(?:--preset )?(\w+)`", chapter)) == set()
