"""Sources, and a report with an issue, for the tests of the research path."""

import json
from typing import Any

from mull.multipath import report
from mull.multipath.markup import visible
from mull.multipath.parts import Critique, Passage
from mull.multipath.report import Parts
from mull.multipath.result import Source


def source(number: int, text: str, name: str = "", page: int | None = None) -> Source:
    """Make a source of a passage of `number` lines."""
    passage = Passage(
        id=f"p{number}", source=name or f"docs/{number}.md", first_line=1, last_line=number,
        score=1.0, text=text, page=page,
    )  # fmt: skip
    return Source(number=number, passage=passage)


DAM = source(1, "The dam was built in 1931.")
LAKE = source(2, "The lake holds 40 million cubic metres.", "docs/lake.pdf", page=7)
FISH = source(3, "Trout were seen in it.")
SOURCES = (DAM, LAKE, FISH)

REPORT = "# Dams\n\nThe **dam** was built\nin 1932 [1]. It is high."
ISSUE = {
    "sentence": "The dam was built in 1932 [1].",
    "aspect": "citation",
    "source": 1,
    "advice": "source 1 says 1931",
}
CRITIQUE = Critique(
    aspect="citation",
    advice="source 1 says 1931",
    sentence="The dam was built in 1932 [1].",
    cited=1,
)


def split(text: str) -> Parts:
    """Take a report apart as it is shown."""
    return report.split(visible(text))


def said(*issues: Any, **members: Any) -> str:
    """Write a reflection's reply."""
    return json.dumps({"issues": list(issues), **members})
