"""Labelled logs of simulated models, whose agreement predicts right answers more or less well.

    python -m bench.simulated_logs              how well maps of them are calibrated
    python -m bench.simulated_logs --example    examples/simulated-answers.jsonl

Each question has its own share of right answers, from a mixture of beta distributions, and its own
favourite among the wrong ones, so that a model can agree with itself on a wrong one. Maps are
fitted on a random half of a log's questions, and measured on the other, HALVES times.
"""

import argparse
import json
from collections.abc import Iterator
from random import Random
from statistics import fmean
from typing import NamedTuple

from commands.measuring.maps import ended_runs, fit_map
from commands.measuring.replay import read_recording
from mull.sampling.probability import Setup
from mull.sampling.rules import Stopping

HALVES, ORDERINGS = 20, 40
QUESTIONS = (198, 400, 1_000)
STOPPING = Stopping(preset="thrifty")
EXAMPLE, EXAMPLE_QUESTIONS, EXAMPLE_ANSWERS = "hard", 400, 10


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


def example() -> Iterator[str]:
    """Yield the lines of the example, in the form of your own logs."""
    told = {"model": f"simulated/{EXAMPLE}", "kind": "number"}
    for line in log_lines(FAMILIES[EXAMPLE], EXAMPLE_QUESTIONS, EXAMPLE_ANSWERS):
        yield json.dumps(json.loads(line) | told, separators=(",", ":"))


def errors(family: str, questions: int) -> Iterator[tuple[float, float, float]]:
    """Yield the calibration error of each half's map, its floor, and the error of the share."""
    lines = map(json.loads, log_lines(FAMILIES[family], questions))
    recordings = [read_recording("number", line) for line in lines]
    runs = ended_runs(recordings, STOPPING, ORDERINGS, Random(0))
    setup = Setup(answers="number", stopping=STOPPING)
    for seed in range(HALVES):
        measured = fit_map(family, setup, runs, [], seed)[0].measured
        yield measured.ece, measured.ece_floor, measured.ece_raw


def main() -> None:
    """Print the example, or the means of each family, as many questions, and all of them."""
    parser = argparse.ArgumentParser("python -m bench.simulated_logs", description=__doc__)
    parser.add_argument("--example", action="store_true")
    if parser.parse_args().example:
        print(*example(), sep="\n")
        return
    print("family     questions  ECE    floor  less floor  ECE of the share")
    for questions in QUESTIONS:
        above = []
        for family in FAMILIES:
            ece, floor, raw = map(fmean, zip(*errors(family, questions), strict=True))
            above.append(ece - floor)
            print(
                f"{family:10} {questions:9,}  {ece:.3f}  {floor:.3f}  {above[-1]:10.3f}  {raw:.3f}"
            )
        print(f"{'mean':10} {questions:9,}  {'':12}  {fmean(above):10.3f}")


if __name__ == "__main__":
    main()
