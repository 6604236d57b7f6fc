"""What Temporal's Web UI shows of a run."""

import pytest

from mull.details import details
from mull.sheet import Sheet
from tests.unit.runs import sampled
from tests.unit.sheets import ASKED, HOSTILE, SHEETS, everywhere, told


def outside_fences(markdown: str) -> str:
    return "".join(markdown.split("```")[::2])


def test_a_finished_run_is_told_to_the_digit() -> None:
    """The whole text of a run of five answers."""
    sampling = sampled(["129", "129", "139", "129", "129"])

    shown = details(told(sampling), "4bf92f3577b34da6")

    assert shown == (
        "**Stopped (`rule`): agreement 0.8 reaches 0.8**\n\n"
        "```text\n"
        "agreement      0.80 (uncertainty low; a share, no probability)\n"
        "entropy        0.72 (widely scattered; 0: all agree, 1: even)\n"
        "consensus      strong\n"
        "answers        5, in 1 wave\n"
        "stopping rule  combined\n"
        "spent          5 calls, 500 tokens in and 200 out, cost $0.0010\n"
        "model          openai/gpt-test\n"
        "```\n\n"
        "```text\n"
        "agreement             ██▆▇▇  0.80\n"
        "entropy               ▁▁█▇▆  0.72\n"
        "compared by the rule  ▇      0.80\n"
        "```\n\n"
        "```text\n"
        "Votes:\n"
        "answer  votes  share\n"
        "129         4   0.80  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁\n"
        "139         1   0.20  ▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁\n"
        "```\n\n"
        "```text\n"
        "Decisions:\n"
        "#  wave  vote  lead  agreement  entropy  decision  reason\n"
        "1     1  129    1-0       1.00     0.00  go on     1 of at least 5 readable answers\n"
        "2     1  129    2-0       1.00     0.00  go on     2 of at least 5 readable answers\n"
        "3     1  139    2-1       0.67     0.92  go on     3 of at least 5 readable answers\n"
        "4     1  129    3-1       0.75     0.81  go on     4 of at least 5 readable answers\n"
        "5     1  129    4-1       0.80     0.72  stop      agreement 0.8 reaches 0.8\n"
        "```\n\n"
        "Trace: `4bf92f3577b34da6`"
    )


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
