"""Labelled logs of made-up models, whose agreement says more or less about being right.

Each question has its own share of right answers, from a mixture of beta distributions, and its own
favourite among the wrong ones, so that a model can agree with itself on what is wrong.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple


class Family(NamedTuple):
    """A model on a benchmark.

    `shares` has a weight and two parameters for each beta distribution of the share of right
    answers, and `favourite` the parameters of the most frequent wrong answer's share of the wrong
    ones. The others are spread over `others`, and `unreadable` is the share of those.
    """

    shares: tuple[tuple[float, float, float], ...]
    favourite: tuple[float, float]
    others: int
    unreadable: float = 0.0


# Easy sums, hard sums, medicine, science, general knowledge, olympiads, and a puzzle.
FAMILIES = {
    "easy": Family(((0.9, 12, 0.6), (0.1, 0.7, 1.5)), (2, 2), 8, 0.01),
    "hard": Family(((0.7, 8, 0.8), (0.3, 0.6, 1.2)), (1.5, 3), 20, 0.02),
    "medicine": Family(((0.62, 9, 0.7), (0.38, 0.7, 3.5)), (4, 1), 3),
    "science": Family(((0.45, 4, 1.2), (0.55, 1, 2.2)), (3, 2), 3, 0.02),
    "knowledge": Family(((0.8, 10, 0.6), (0.2, 0.5, 3)), (5, 1), 3),
    "olympiad": Family(((0.3, 3, 1), (0.7, 0.3, 3)), (1, 3), 40, 0.1),
    "puzzle": Family(((1, 0.3, 3),), (1, 6), 60, 0.02),
}


def log_lines(family: Family, questions: int, answers: int = 16, seed: int = 0) -> Iterator[str]:
    """Yield the lines of a log; "0" is right."""
    chance = Random(seed)
    for number in range(questions):
        [(_, *beta)] = chance.choices(family.shares, [weight for weight, *_ in family.shares])
        right, favourite = chance.betavariate(*beta), chance.betavariate(*family.favourite)
        given = []
        for _ in range(answers):
            wrong = 1 if chance.random() < favourite else 2 + chance.randrange(family.others)
            answer = "0" if chance.random() < right else str(wrong)
            given.append(None if chance.random() < family.unreadable else answer)
        yield json.dumps({"id": number, "gold": "0", "answers": given})
