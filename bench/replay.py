"""Measure how long replaying takes: 1,000 questions, 40 answers, 40 orderings, every rule.

    .venv/bin/python -m bench.replay

The answers are generated: each question has its own share of right answers, and wrong ones are
spread over nine others, so that every rule meets easy questions, split votes and noise.
"""

from random import Random
from time import perf_counter
from typing import get_args

from commands.measuring.replay import orderings
from reflection.sampling.replay import Recorded, Replay, compare_rules, recorded
from reflection.sampling.rules import Rule, Stopping

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
        replay.runs(question, orderings(ANSWERS, max_responses, ORDERINGS, chance))
        for question in questions
    ]
    outcomes = compare_rules(dict(zip(names, map(list, zip(*runs, strict=True)), strict=True)))
    seconds = perf_counter() - start
    for name, outcome in outcomes.items():
        print(f"  {name:16} {outcome.calls:6.2f} calls {outcome.rounds:5.2f} rounds")
    return seconds


if __name__ == "__main__":
    for most in (10, ANSWERS):
        print(f"at most {most} answers: {measure(most):.1f} s")
