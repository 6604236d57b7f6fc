"""Revisions that revise nothing."""

import pytest

from reflection.critique.guardrails import Checked, check
from tests.unit.critique.guarded import HONEST, capped

SENTENCES = HONEST.split(". ")


@pytest.mark.parametrize(
    "draft",
    [
        HONEST,
        HONEST.upper(),
        HONEST.replace(",", " -").replace(".", "!"),
        f"  {HONEST}\n\n",
        f"Here is the improved version:\n\n{HONEST}",
        f"{HONEST} I hope this helps!",
        f"{HONEST} Updated in version 2.",
        ". ".join([*SENTENCES[2:], *SENTENCES[:2]]),
        f"{HONEST}\n\n{HONEST}",
        HONEST.replace("most of its sugar", "really most of its sugar"),
        HONEST.replace("toxic", "poisonous"),
        HONEST.replace("o", "o\u200b"),
        f"## Answer\n\n**{HONEST}**",
    ],
)
def test_a_copy_gets_no_more_than_what_it_copies(draft: str) -> None:
    """Case, marks, order, filler, a phrase more and a repeated text make no new draft."""
    assert capped("near_copy", draft, previous=HONEST, previous_score=0.4) == 0.4


@pytest.mark.parametrize(
    ("previous", "draft"),
    [
        (HONEST, HONEST.replace("two months", "two months, or 60 days in the heat of a reef")),
        (f"{HONEST} It takes 50 years.", f"{HONEST} It takes 500 years."),
        (f"{HONEST} The largest is near Lima.", f"{HONEST} The largest is near Cairns."),
        (HONEST, HONEST.replace("It isn't dead", "It is dead")),
        (HONEST, HONEST.replace("towards the light.", "towards the light [1].")),
        (HONEST, ". ".join(SENTENCES[:-1]) + "."),
        ("Paris", "Lyon"),
        ("The dog bites the man.", "The man bites the dog."),
        ("Paris.", "Paris, because the king lived there."),
        ("Use:\n```python\nif a < b:\n    f()\n```", "Use:\n```python\nif a <= b:\n    f()\n```"),
        (
            HONEST,
            (
                f"{HONEST} Fishing does harm too, for without grazers the weeds win, and no larva"
                " finds a place to settle on the ground below them."
            ),
        ),
        (None, HONEST),
    ],
)
def test_a_small_correction_is_no_copy(previous: str | None, draft: str) -> None:
    """One number, name, negation or citation that is put right is a revision."""
    assert capped("near_copy", draft, previous=previous, previous_score=0.4) is None


def test_a_copy_of_a_draft_without_a_score_is_capped_at_a_half() -> None:
    """Where the score of the copied draft is unknown, the copy gets at most 0.5."""
    report = check(Checked(query="q", draft=HONEST, previous=HONEST), ["near_copy"])

    assert [(cap.cap, cap.above) for cap in report.caps] == [(0.5, 0.5)]
