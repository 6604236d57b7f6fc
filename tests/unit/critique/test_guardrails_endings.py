"""Drafts without an end."""

from typing import Any

import pytest

from tests.unit.critique.guarded import HONEST, capped


@pytest.mark.parametrize(
    "draft",
    [
        f"{HONEST}\n\n```python\nx = 1\n",
        f"{HONEST} And then...",
        f"{HONEST} The next step is\u2026",
        f"{HONEST} The three causes are:",
        f"{HONEST} Heat, acid,",
        f"{HONEST} This is because the",
        f"{HONEST} It lives in the shallow sea (which is",
        f"{HONEST} The last of the great reefs of the world that we know today is in dang",
        f"{HONEST}\n\n[continued]",
        f"{HONEST}\n\nTo be continued.",
        f"{HONEST}\n\n[rest omitted for brevity]",
        f"{HONEST} [insert example here] It ends.",
        f"{HONEST}\n\nTODO: add the numbers.",
        "```python\ndef f():\n    # ... rest of the code\n    return 1\n```",
        "- one\n- two\n- the cost of the",
        f"{HONEST} And then",
    ],
)
def test_a_draft_that_breaks_off_is_capped(draft: str) -> None:
    """An end that announces more, or something left to be filled in, is no end."""
    assert capped("unfinished", draft) == 0.5


@pytest.mark.parametrize(
    "draft",
    [
        HONEST,
        f"{HONEST}\n\n- algae\n- light\n- heat",
        f"{HONEST}\n\n| a | b |\n|---|---|\n| the | of |",
        f"{HONEST}\n\n```python\nx = [\n```",
        "The sea is warm tonight\nThe reef is white as bone\nThe fish have gone",
        "Dear Ms Vega,\n\nthe reef is open again.\n\nBest regards,\nAnna",
        "Dear Ms Vega,\n\nthe reef is open again.\n\nKind regards,",
        f"{HONEST}\n\nSee https://reefs.org/growth",
        "One third is 0.333...",
        "The odd numbers are 1, 3, 5, ...",
        "Paris",
        (
            f"{HONEST}\n\n- one of the many things that grow in the sea is a polyp\n"
            "  that builds a house of stone for itself and for all of the others around it"
        ),
        f"{HONEST} Glad to help :)",
        f"{HONEST} It is so. [1]",
        '"It is over," she said. "Go home."',
        "# Reefs\n\nIt grows (slowly).\n\n## The end",
        "Write `TODO: later` into the file.",
        "A to-do list has a place for TODO items, and [links](https://a.org).",
        "珊瑚礁由石灰质骨骼构成。",
    ],
)
def test_a_draft_that_ends_is_left_alone(draft: str) -> None:
    """Lists, tables, code, poems and signatures need no full stop."""
    assert capped("unfinished", draft) is None


@pytest.mark.parametrize("given", [{"finish_reason": "length"}, {"cut": True}])
def test_a_draft_that_was_cut_is_capped(given: dict[str, Any]) -> None:
    """The limit of output tokens and the limit of a result cut a draft that reads well too."""
    assert capped("unfinished", HONEST, **given) == 0.5


def test_a_template_may_have_places_to_fill_in() -> None:
    """Who asks for a template gets its placeholders."""
    assert capped("unfinished", "Dear [insert name], come.", "Write a letter template.") is None
