"""Drafts that decline."""

import pytest

from tests.unit.critique.guarded import HONEST, QUERY, capped


@pytest.mark.parametrize(
    "draft",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I can\u2019t assist with that request.",
        "I'M SORRY, BUT I CANNOT HELP WITH THAT.",
        "As an AI language model, I cannot provide opinions on reefs.",
        "> **I am unable to fulfil this request.**",
        "\"I'm sorry, but I can't help with that.\"",
        "Hello! Thank you for your question. Unfortunately, I'm not able to help with this topic.",
        "I cannot comply with this. It is important to obey the law. Reefs are protected areas.",
        "I can't help with that. If you have any other question, feel free to ask!",
        "I must respectfully decline.",
        "This request cannot be fulfilled.",
        "I'd rather not answer that question.",
        "I won't write this.",
        "Es tut mir leid, aber dabei kann ich Ihnen nicht helfen.",
        "Je suis désolé, mais je ne peux pas vous aider avec cela.",
        "Lo siento, pero no puedo ayudarte con eso.",
        "I'm s\u200borry, but I can't h\u200belp with that.",
    ],
)
def test_a_draft_that_only_declines_is_capped(draft: str) -> None:
    """A refusal is no answer, however it is dressed."""
    assert capped("refusal", draft) == 0.2


@pytest.mark.parametrize(
    ("query", "draft"),
    [
        (QUERY, HONEST),
        (QUERY, f"I can't help you with diving, but here is the biology. {HONEST}"),
        (QUERY, f"As an AI I cannot dive myself. {HONEST}"),
        (
            "Reply to a customer who wants money back.",
            (
                "I'm sorry, but we can't refund an order after 30 days. We can exchange it for one"
                " of another size, or give you a voucher of the same value; tell us which."
            ),
        ),
        (
            "Reply to a customer who wants money back.",
            (
                "I'm sorry, but I can't give a refund after 30 days. I have sent a voucher over 40"
                " euros to your address, and it is good for a year."
            ),
        ),
        (QUERY, "The old program said \"I'm sorry, but I can't help with that\" to everyone."),
        ("Write a polite refusal to an invitation.", "I'm sorry, but I can't help with that."),
        ("Is it open?", "I am sorry to say that it is closed."),
    ],
)
def test_a_draft_that_answers_is_left_alone(query: str, draft: str) -> None:
    """An apology with help, a quoted refusal and one that was asked for are answers."""
    assert capped("refusal", draft, query) is None
