"""Measure how long replaying takes: 1,000 questions, 40 answers, 40 orderings, every rule.

    .venv/bin/python -m bench.replay

The answers are generated: each question has its own share of right answers, and wrong ones are
spread over nine others, so that every rule meets easy questions, split votes and noise. First it
prints the time of the measures: all of them after each of 1,000 answers, 50 of them distinct.
"""

from random import Random
from statistics import median
from time import perf_counter
from typing import get_args

from mull.sampling.replay import Recorded, Replay, compare_rules, orderings, recorded
from mull.sampling.result import Tally, analyse, classify_consensus
from mull.sampling.rules import Rule, Stopping

QUESTIONS, ANSWERS, ORDERINGS = 1_000, 40, 40


def generate(chance: Random) -> Recorded:
    """Generate a question of random difficulty; "0" is right, and some answers are unreadable."""
    right, unreadable = chance.random(), 0.05 * chance.random()
    answers = [
        None
        if chance.random() < unreadable
        else "0"
        if chance.random() < right
        else str(chance.randint(1, 9))
        for _ in range(ANSWERS)
    ]
    return recorded("number", answers, gold="0")


def measure(max_responses: int) -> float:
    """Replay everything once, print the rules' outcomes, and return the seconds it took."""
    chance = Random(0)
    questions = [generate(chance) for _ in range(QUESTIONS)]
    names = get_args(Rule)
    start = perf_counter()
    replay = Replay([Stopping(rule=name, max_responses=max_responses) for name in names])
    runs = [
        replay.runs(question, orderings(ANSWERS, max_responses, ORDERINGS, chance.sample))
        for question in questions
    ]
    outcomes = compare_rules(dict(zip(names, map(list, zip(*runs, strict=True)), strict=True)))
    seconds = perf_counter() - start
    for name, outcome in outcomes.items():
        print(f"  {name:16} {outcome.calls:6.2f} calls {outcome.rounds:5.2f} rounds")
    return seconds


def milliseconds(answers: list[str]) -> float:
    """Time every measure after each of these answers."""
    start, tally = perf_counter(), Tally()
    found = [tally.add(answer) for answer in answers]
    for measured in found:
        classify_consensus(measured.confidence, measured.runner_up_votes / measured.votes)
    confidences = [measured.confidence for measured in found]
    analyse(confidences, [measured.normalized_entropy for measured in found])
    return (perf_counter() - start) * 1e3


if __name__ == "__main__":
    made_up = [f"answer {Random(place).randrange(50)}" for place in range(1_000)]
    print(f"measures: median {median(milliseconds(made_up) for _ in range(50)):.2f} ms")
    for most in (10, ANSWERS):
        print(f"at most {most} answers: {measure(most):.1f} s")
