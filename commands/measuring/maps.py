"""The map of `replay --calibrate`: fitted on one half of the questions, tested on the other."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import cycle, islice
from random import Random

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, log_expit, logit
from scipy.stats import binomtest

from commands.command import fail
from commands.measuring.calibrate import diagram
from commands.plans import facts_of
from mull.critique import statistics as numbers
from mull.critique.estimates import Bin
from mull.critique.statistics import Array
from mull.sampling import probability
from mull.sampling.probability import CalibrationMap, Knot, Measured, Target
from mull.sampling.replay import Recorded, Replay, orderings
from mull.sampling.rules import Stopping
from mull.sheet import Sheet, Verdict, table
from mull.text import percent

# With fewer questions a map makes a model that is well calibrated worse.
LEAST, LEAST_ISOTONIC = 50, 200
CERTAINTY = 0.95


def ended_runs(
    questions: Iterable[Recorded], stopping: Stopping, count: int, chance: Random
) -> Array:
    """Run each labelled question through a rule in `count` orderings, the recorded one first.

    The result has, by question and ordering, the leader's votes, all votes, and whether the leader
    is right. An ordering without a readable answer gives its place to the others.
    """
    replay, rows = Replay([stopping]), []
    for question in questions:
        orders = orderings(len(question.votes), stopping.max_responses, count, chance.sample)
        ends = [end for order in orders for end in replay.ends(question, order)]
        right = question.right
        found = [
            (end.counts[0], sum(end.counts), right[end.leader])
            for end in ends
            if right is not None and end.leader is not None
        ]
        if found:
            rows.append(list(islice(cycle(found), count)))
    return np.array(rows, dtype=float)


def fit_knots(runs: Array) -> list[Knot]:
    """Fit how likely the leader is right to its smoothed share, within what so many runs can show.

    From 200 questions on it is isotonic regression on at most 50 bins of equal mass, else a
    logistic curve. Sources: Zadrozny and Elkan (2002), Transforming classifier scores into accurate
    multiclass probability estimates; Platt (1999), Probabilistic outputs for support vector
    machines.
    """
    first, votes, right = runs.reshape(-1, 3).T
    shares = np.vectorize(probability.smoothed)(first, votes)
    if len(runs) >= LEAST_ISOTONIC:
        bins = numbers.mass_bins(shares, bins=probability.MOST_KNOTS)
        _, places, sizes = np.unique(bins, return_inverse=True, return_counts=True)
        knots, rates = (np.bincount(places, values) / sizes for values in (shares, right))
        fitted = isotonic_regression(rates, weights=sizes).x
    else:
        logits = logit(shares)

        def loss(curve: Array) -> float:
            line = curve[0] * logits + curve[1]
            return -float(np.mean(right * log_expit(line) + (1 - right) * log_expit(-line)))

        slope, start = minimize(loss, [1.0, 0.0], bounds=[(0, None), (None, None)]).x
        knots = np.unique(np.linspace(shares.min(), shares.max(), probability.MOST_KNOTS))
        fitted = expit(slope * logit(knots) + start)
    least = 1 / (len(runs) + 2)
    chances = np.clip(fitted, least, 1 - least).round(6)
    return list(map(Knot, knots.tolist(), chances.tolist()))


def least_probability(chances: Array, right: Array, target: float) -> Target:
    """Find the lowest probability from which on answers are right as often as the target.

    Cuts are tested from the top down until one is not right that often with 95 % certainty,
    one-sided. A cut too small to show it, even if all its answers are right, is skipped. Sources:
    Clopper and Pearson (1934); Maurer, Hothorn and Lehmacher (1995) for a fixed order, which needs
    no correction.
    """
    found = Target()
    for cut in np.unique(chances)[::-1].tolist():
        reached = right[chances >= cut]
        if target ** len(reached) > 1 - CERTAINTY:
            continue
        tested = binomtest(int(reached.sum()), len(reached), alternative="greater")
        if tested.proportion_ci(CERTAINTY).low < target:
            break
        coverage = len(reached) / len(right)
        found = Target(at_least=cut, coverage=coverage, accuracy=float(reached.mean()))
    return found


def fit_map(
    name: str, setup: probability.Setup, runs: Array, targets: Iterable[float], seed: int
) -> tuple[CalibrationMap, tuple[Bin, ...]]:
    """Fit a map on a random half of the questions, and measure it on the others."""
    half = len(runs) // 2
    if half < LEAST:
        said = f"a map needs {2 * LEAST} questions with gold or ok and a readable answer"
        fail(f"--calibrate: {said}, half of them to test it; there are {len(runs)}.")
    drawn = np.random.default_rng(seed).permutation(runs)
    knots, (first, votes, right) = fit_knots(drawn[:half]), np.moveaxis(drawn[half:], 2, 0)
    chances = np.vectorize(partial(probability.probability, knots))(first, votes)
    shares = first / votes
    found = {
        "ece": numbers.calibration_error(chances.ravel(), right.ravel()),
        "ece_raw": numbers.calibration_error(shares.ravel(), right.ravel()),
        "ece_floor": numbers.noise_errors(chances).mean(),
        "brier": np.mean((chances - right) ** 2),
        "brier_raw": np.mean((shares - right) ** 2),
    }
    measured = Measured(
        method="isotonic" if half >= LEAST_ISOTONIC else "platt",
        questions=len(runs),
        held_out=len(right),
        **{measure: round(float(value), 6) for measure, value in found.items()},
        targets={
            f"{target:g}": least_probability(chances[:, 0], right[:, 0], target)
            for target in targets
        },
    )
    made = CalibrationMap(**dict(setup), name=name, knots=knots, measured=measured)
    return made, numbers.reliability(chances.ravel(), right.ravel())


def sheet(made: CalibrationMap, bins: Sequence[Bin], remarks: Iterable[str]) -> Sheet:
    """Show how good a map is, and how reliable on the questions that were held out."""
    measured, runs = made.measured, sum(one.count for one in bins)
    flags = [*remarks]
    if made.unknown:
        said = f"Neither lines nor options say {', '.join(made.unknown)}"
        flags.append(f"{said}: the map may not fit a run that it is given to.")
    facts = {
        "model": made.model or "unknown",
        "rule": f"{made.stopping.rule}, at most {made.stopping.max_responses} answers",
        "calibration error": f"{measured.ece:.3f} (noise alone makes {measured.ece_floor:.3f});"
        f" the share of votes has {measured.ece_raw:.3f}",
        "Brier score": f"{measured.brier:.3f}; the share of votes has {measured.brier_raw:.3f}",
    }
    for name, one in measured.targets.items():
        words = f"not shown for any probability on this map (with {100 * CERTAINTY:g} % certainty)"
        if one.at_least is not None and one.accuracy is not None:
            words = f"from a probability of {one.at_least:.3f} on: {percent(one.coverage)} of the"
            words += f" questions, {percent(one.accuracy)} of them right"
        facts[f"{100 * float(name):g} % right"] = words
    said = f"a curve fitted by Platt's method (under {LEAST_ISOTONIC} questions)"
    said = "a map by isotonic regression" if measured.method == "isotonic" else said
    said += f", of {measured.questions - measured.held_out:,} questions"
    rows = ((one.score, one.label, percent(one.count / runs)) for one in bins)
    names = "probability|share, right|share, of all runs|number"
    return Sheet(
        subject="How likely is the answer right?",
        verdict=Verdict(words=f"{said}, tested on {measured.held_out:,} others"),
        flags=tuple(flags),
        facts=facts_of(facts),
        charts=(diagram(made.name, "probability", bins, "right", "probability"),),
        tables=(table("Reliability on the questions held out", names, rows),),
    )
