"""Measure the cost of the measures: all of them after each of 1,000 answers, 50 of them distinct.

    .venv/bin/python -m bench.measures

Prints milliseconds: the minimum and the median of 50 passes.
"""

import random
import statistics
import time

from reflection.sampling.tally import (
    Tally,
    analyse,
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
)

ANSWERS, DISTINCT, TRIES = 1_000, 50, 50


def measure(answers: list[str]) -> None:
    """Count each answer and take every measure after it."""
    tally = Tally()
    confidences: list[float] = []
    entropies: list[float] = []
    for answer in answers:
        found = tally.add(answer)
        confidences.append(found.confidence)
        entropies.append(found.normalized_entropy)
        classify_entropy(found.normalized_entropy)
        classify_uncertainty(found.confidence)
        classify_consensus(found.confidence, found.runner_up_votes / found.votes)
    analyse(confidences, entropies)


def milliseconds(answers: list[str]) -> float:
    """Time one pass over the answers."""
    started = time.perf_counter()
    measure(answers)
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    chosen = random.Random(0)
    made_up = [f"answer {chosen.randrange(DISTINCT)}" for _ in range(ANSWERS)]
    times = [milliseconds(made_up) for _ in range(TRIES)]
    print(f"least {min(times):.2f} ms, median {statistics.median(times):.2f} ms")
