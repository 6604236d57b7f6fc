"""Drafts that are too short, and drafts that only look it."""

import pytest

from reflection.critique.guardrails import Checked, check
from tests.unit.critique.guarded import HONEST, QUERY, capped, reason


@pytest.mark.parametrize(
    ("query", "draft"),
    [
        (QUERY, HONEST[:400]),
        (QUERY, "Corals are animals. " * 60),
        (QUERY, "Corals are very" + " very" * 200 + " old."),
        (QUERY, HONEST[:200] + " " * 900),
        (QUERY, HONEST[:200] + "\u200b" * 900),
        (QUERY, HONEST[:200] + "\n<!-- " + HONEST + " -->"),
        (QUERY, HONEST[:200] + "\n" + "-" * 600),
        (QUERY, HONEST[:200] + "a" * 600),
        (QUERY, f"[Corals](https://reef.org/{'a' * 600}) are animals."),
        (QUERY, "\u200b\u200b"),
        ("What is the capital of France?", "** **"),
        ("Write an essay of at least 300 words on reefs.", HONEST),
        ("Write a 1,000-word essay on reefs.", HONEST),
        ("Write about reefs, 1,000 words.", HONEST * 12),
        ("Discuss reefs in five paragraphs.", HONEST),
        ("Discuss reefs in five paragraphs.", "\n\n".join([HONEST] * 5)),
        ("Write a JSON object with the ten largest reefs.", "{}"),
        ("Don't just answer yes or no: explain whether reefs can recover.", "Yes, they can."),
        ("Explain in more than one sentence how reefs form.", "They grow."),
    ],
)
def test_a_draft_that_says_too_little_is_capped(query: str, draft: str) -> None:
    """Blanks, repeats, markup and what nobody sees are no text, and a demanded length counts."""
    assert capped("too_short", draft, query) == 0.5


@pytest.mark.parametrize(
    ("query", "draft"),
    [
        (QUERY, HONEST),
        ("What is the capital of France?", "Paris."),
        ("Is 91 prime?", "No: 91 = 7 x 13."),
        ("Summarize how reefs form in one sentence.", "Polyps build limestone on limestone."),
        ("Briefly, why do reefs bleach?", "Warm water drives out their algae."),
        ("Write a haiku about corals and the sea.", "White bones in warm tides"),
        ("Explain why reefs matter in 50 words.", "They feed and shelter a quarter of sea life."),
        ("Explain why reefs matter in at most 60 words.", "They feed and shelter sea life."),
        ("Write a commit message for this change: we now cache the reef map.", "Cache the map"),
        ("Suggest three names for a company that restores reefs.", "Reefer, Corallia, Polyp & Co"),
        ("Give me a regex that matches a date as 2024-01-31.", r"\d{4}-\d{2}-\d{2}"),
        ("Write a Python function that adds two numbers.", "def add(a, b):\n    return a + b"),
        ("Schreibe in einem Satz, wie Riffe entstehen.", "Polypen bauen Kalk auf Kalk."),
        ("Explique les récifs en une phrase.", "Les polypes bâtissent du calcaire."),
        ("Write about 100 words on reefs.", HONEST),
        (
            QUERY,
            "珊瑚礁是由珊瑚虫的石灰质骨骼经过数百年堆积而成的生态系统。" * 1
            + (
                "当海水温度持续升高时,与珊瑚共生的藻类会产生有毒的氧,于是被珊瑚排出,白色骨骼便显露出来。"
                "如果水温很快恢复正常,新的藻类可以重新住进组织,珊瑚便能存活;否则它会在两个月内饿死,"
                "海草随即覆盖整片礁石。保护礁石需要减少排放、控制捕捞,并且改善沿岸的水质。"
                "科学家还在培育耐热品种,把它们移植到受损区域,希望借此争取一些时间。"
            ),
        ),
    ],
)
def test_a_draft_as_long_as_its_query_needs_is_left_alone(query: str, draft: str) -> None:
    """Who asks for little, or for code, may get little."""
    assert capped("too_short", draft, query) is None


def test_only_a_high_score_is_capped_for_few_characters() -> None:
    """The chapter's numbers: under 500 characters and over 0.8 becomes 0.5."""
    report = check(Checked(query=QUERY, draft=HONEST[:499]), ["too_short"])

    assert [(cap.cap, cap.above) for cap in report.caps] == [(0.5, 0.8)]


def test_a_draft_far_below_a_demanded_length_is_capped_at_any_score() -> None:
    """Two thirds of the demanded words are the least, whatever the judge thinks."""
    query = "Write at least 300 words on reefs."

    report = check(Checked(query=query, draft=HONEST), ["too_short"])

    assert [(cap.cap, cap.above) for cap in report.caps] == [(0.5, 0.5)]


def test_five_hundred_characters_of_text_are_enough() -> None:
    """The limit itself is long enough, and one character less is not."""
    assert capped("too_short", HONEST[:500]) is None
    assert "has 499 characters" in reason("too_short", HONEST[:499])
