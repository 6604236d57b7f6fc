"""How complex a query is, by its words."""

import pytest

from mull.critique.criteria import complexity


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Hello!", 0.1),
        ("hi there, how are you?", 0.1),
        ("2 + 2", 0.1),
        ("What is 17 * 23?", 0.1),
        ("Translate 'cat' to French", 0.2),
        ("Define ubiquitous", 0.2),
        ("How do you say cat in French?", 0.2),
        ("Answer yes or no: is 91 a prime number?", 0.3),
        ("Is 91 prime?", 0.26),
        ("What is the capital of France?", 0.32),
        ("Who wrote Pride and Prejudice?", 0.3),
        ("Please tell me, who was the first U.S. president?", 0.32),
        ("How many legs does a spider have?", 0.34),
        ("Explain recursion", 0.553),
        ("", 0.55),
    ],
)
def test_the_table_gives_these_numbers(query: str, expected: float) -> None:
    """The estimate is the documented one."""
    assert complexity(query) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "query",
    [
        "Why is the sky blue?", "How does TCP work?",
        "What are the trade-offs of microservices?", "Is Rust better than Go for web servers?",
        "Which database should I use?", "Can you explain monads?",
        "What is a monad and how is it used?", "What happens if the moon is gone?",
        "Who was Caesar? Who was Brutus?", "What did he write, when, where",
        "Translate this to French", "Translate: I am a cat and you are a dog",
        "Was sind die Ursachen des Krieges?", "Wer ist der Papst?", "法国的首都是哪里?",
        "Write a haiku", "Plan my week", "Hello! Write a report on reefs.",
        "What is the capital of France?\nExplain at length.", "…",
    ],
)  # fmt: skip
def test_what_is_not_recognisably_simple_is_above_a_half(query: str) -> None:
    """What is open, has parts, or is in another language is worth reflecting on."""
    assert complexity(query) > 0.5
