"""Closed-form probabilities about votes that are not cast yet."""

from collections.abc import Iterator
from functools import lru_cache
from math import comb

from mull.run import at_least


def beta_binomial_ways(calls: int, alpha: int, beta: int) -> Iterator[int]:
    """Yield P(X = 0), P(X = 1) up to P(X = calls) as whole numbers of ways.

    X ~ BetaBinomial(calls, alpha, beta) with whole alpha, beta >= 1. All the ways together are
    comb(calls + alpha + beta - 1, calls), so that a tail is summed without rounding and divided
    once. Source: Skellam (1948).
    """
    ways = comb(calls + beta - 1, calls)
    for successes in range(calls + 1):
        yield ways
        left = calls - successes
        if left:
            ways = ways * (successes + alpha) * left // ((successes + 1) * (left - 1 + beta))


@lru_cache(maxsize=65536)
def flip_probability(leader: int, runner_up: int, calls_left: int) -> float:
    """Compute the probability, 0 to 1, that the runner-up overtakes the leader by the end.

    The posterior over the two leading answers is Beta(leader + 1, runner_up + 1), all calls left
    go to one of these two, and a tie at the end counts half.
    """
    doubled, needed = 0, leader - runner_up + calls_left
    for gained, ways in enumerate(beta_binomial_ways(calls_left, runner_up + 1, leader + 1)):
        if 2 * gained >= needed:
            doubled += ways if 2 * gained == needed else 2 * ways
    return doubled / (2 * comb(calls_left + leader + runner_up + 1, calls_left))


@lru_cache(maxsize=65536)
def lead_probability(leader: int, runner_up: int) -> float:
    """Compute P(Bin(leader + runner_up + 1, 1/2) <= leader), 0 to 1.

    It is the posterior probability that the leader is the more likely one of the two.
    Source: Adaptive-Consistency (Aggarwal et al., EMNLP 2023), its Beta criterion.
    """
    tosses, ways, tail = leader + runner_up + 1, 1, 0
    for heads in range(leader + 1):
        tail += ways
        ways = ways * (tosses - heads) // (heads + 1)
    return tail / (1 << tosses)


@lru_cache(maxsize=65536)
def reach_probability(leader: int, votes: int, calls_left: int, share: float) -> float:
    """Compute the probability, 0 to 1, that the leader's share reaches `share` at the end.

    The posterior of the leader's share is Beta(leader + 1, votes - leader + 1), and each call
    that is left gives a vote.
    """
    others, total = votes - leader, votes + calls_left
    tail = sum(
        ways
        for gained, ways in enumerate(beta_binomial_ways(calls_left, leader + 1, others + 1))
        if at_least((leader + gained) / total, share)
    )
    return tail / comb(total + 1, calls_left)
