"""What Temporal's Web UI shows of a run."""

import pytest

from mull.details import details
from mull.sheet import Sheet
from tests.unit.sheets import ASKED, HOSTILE, SHEETS, everywhere


def outside_fences(markdown: str) -> str:
    return "".join(markdown.split("```")[::2])


def test_flags_and_warnings_are_shown_as_text() -> None:
    """Markdown in them is not obeyed."""
    noted = ASKED.model_copy(update={"flags": ("see <b>[x](http://y)</b> or www.z.com",)})

    assert r"- **see \<b\>\[x\](http\://y)\</b\> or www\.z\.com**" in details(noted)
    assert "- seed was left out" in details(noted)


@pytest.mark.parametrize("shown", SHEETS.values(), ids=SHEETS)
def test_no_text_leaves_its_block(shown: Sheet) -> None:
    """Blocks and spans are closed, and outside of them no line begins with Markdown."""
    markdown = details(shown, "4bf9", HOSTILE)

    assert markdown.count("```") % 2 == 0
    assert outside_fences(markdown).replace("\\`", "").count("`") % 2 == 0
    assert not any(ord(each) < 32 and each != "\n" for each in markdown)
    assert all(
        not line.startswith(("#", "<", "|")) for line in outside_fences(markdown).splitlines()
    )


@pytest.mark.parametrize("worst", ["\U0001f600\U000e0100" * 5_000, "日" * 9_000, "x" * 9_000])
def test_the_web_ui_takes_it_whatever_it_holds(worst: str) -> None:
    """The worst texts in every place stay within 20,000 bytes, and what was left out is said."""
    shown = details(everywhere(worst), worst, worst)

    assert len(shown.encode()) <= 20_000
    assert "left out" in shown
