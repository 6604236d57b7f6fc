"""How complex a query is, by its words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflection.critique.complexity import complexity


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
        "Why is the sky blue?",
        "How does TCP work?",
        "What are the trade-offs of microservices?",
        "Is Rust better than Go for web servers?",
        "Which database should I use?",
        "Can you explain monads?",
        "What is a monad and how is it used?",
        "What happens if the moon is gone?",
        "Who was Caesar? Who was Brutus?",
        "What did he write, when, where",
        "Translate this to French",
        "Translate: I am a cat and you are a dog",
        "Was sind die Ursachen des Krieges?",
        "Wer ist der Papst?",
        "法国的首都是哪里?",
        "Write a haiku",
        "Plan my week",
        "Hello! Write a report on reefs.",
        "What is the capital of France?\nExplain at length.",
        "…",
    ],
)
def test_what_is_not_recognisably_simple_is_above_a_half(query: str) -> None:
    """What is open, has parts, or is in another language is worth reflecting on."""
    assert complexity(query) > 0.5


def test_more_to_do_is_more_complex() -> None:
    """Parts and length each add."""
    queries = [
        "Explain recursion",
        "Explain recursion and loops",
        "Write a report that explains recursion and loops",
        "Write a report that explains recursion and loops. You must cite at least three papers.",
    ]

    scores = [complexity(each) for each in queries]

    assert scores == sorted(set(scores))
    assert complexity(" ".join(queries) * 20) > 0.85


@settings(max_examples=50)
@given(st.text(max_size=100), st.text(max_size=50))
def test_an_open_query_never_becomes_simpler_by_more(query: str, more: str) -> None:
    """It is between 0 and 1, and another sentence takes nothing away from an open query."""
    first = complexity(f"Explain this. {query}")
    longer = complexity(f"Explain this. {query}\n\nAlso explain this. {more}")

    assert 0 <= complexity(query) <= 1
    assert 0.5 < first <= longer <= 1
