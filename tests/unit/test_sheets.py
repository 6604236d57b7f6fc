"""A run of each loop: its sheet as JSON, and what each renderer makes of it.

`MULL_GOLDEN=write` writes the golden files anew, pages without their style. Read the difference
then, and look at a page of `mull report` in a browser.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from commands.html.rendering import STYLE as STYLE_FILE
from commands.html.rendering import page_html
from commands.terminal import print_sheet, print_steps
from mull.details import details
from mull.sheet import Sheet
from tests.unit.sheets import FACTS, LOOPS, console, written

GOLDEN = Path(__file__).with_name("golden")
STYLE = STYLE_FILE.read_text(encoding="utf-8").strip()


def in_json(sheet: Sheet) -> str:
    return sheet.model_dump_json(indent=1, exclude_defaults=True) + "\n"


def in_a_terminal(sheet: Sheet) -> str:
    on = console(100)
    print_steps(on, sheet.steps)
    print_sheet(on, sheet, subject=True, decisions=True)
    return written(on) + "\n"


def in_the_web_ui(sheet: Sheet) -> str:
    return details(sheet, "4bf92f3577b34da6", FACTS.workflow_id) + "\n"


def on_a_page(sheet: Sheet) -> str:
    page = page_html(sheet, FACTS)
    assert STYLE in page
    return page.replace(STYLE, "")


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(
    ("drawn", "kind"),
    [(in_json, "json"), (in_a_terminal, "txt"), (in_the_web_ui, "md"), (on_a_page, "html")],
)
def test_a_run_of_each_loop_is_shown_as_it_was(
    name: str, drawn: Callable[[Sheet], str], kind: str
) -> None:
    """The whole sheet, and the whole text that each renderer makes of it once it is read again."""
    golden, shown = GOLDEN / f"{name}.{kind}", drawn(LOOPS[name])

    if os.environ.get("MULL_GOLDEN") == "write":
        golden.write_text(shown, encoding="utf-8")

    assert shown == golden.read_text(encoding="utf-8")
    assert drawn(Sheet.model_validate_json(in_json(LOOPS[name]))) == shown
