"""The rating of reflections: two of one prompt, each tried in a next episode, and their gains.

The gain of a reflection is the return of the episode that read it less that of the failed one.
Source: FALAA's formal description of Retroformer, figures 21 to 24, and Algorithm 1 of Retroformer.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from reflection.agents.memory import TrainItem
from reflection.request import Record

Pairing = Literal["ordered", "positive"]


class Provenance(Record):
    """Where reflections come from: a failed episode, whose return is `first_return`.

    `rollout` counts from 1; `temperature` is the reflector's.
    """

    environment: str
    task: str
    environment_seed: int
    rollout: int
    first_return: float
    planner: str | None
    reflector: str | None
    temperature: float
    workflow_id: str
    run_id: str


class RatedPair(Provenance):
    """Two reflections of one failed episode, with the prompt and the returns after them.

    `seeds` are those of the samples.
    """

    tried: Annotated[tuple[TrainItem, ...], Field(min_length=2, max_length=2)]
    seeds: tuple[int | None, ...] = ()

    @property
    def gains(self) -> tuple[float, float]:
        """G(next) − G for each reflection."""
        first, second = self.tried
        return first.rewards - self.first_return, second.rewards - self.first_return


class Labels(NamedTuple):
    """Whether each of two reflections is a good one; `undetermined` if both are, and alike."""

    correct: tuple[bool, bool]
    undetermined: bool


def labels(gains: tuple[float, float]) -> Labels:
    """Label two reflections by their gains, as figure 23 does.

    The better one is correct if its gain is above 0, and the other one is not. Both are incorrect
    where no gain is above 0. Equal gains above 0 are both correct, and undetermined.
    """
    first, second = gains
    if first == second:
        return Labels((first > 0, second > 0), first > 0)
    return Labels((first > max(second, 0), second > max(first, 0)), undetermined=False)


class Preference(NamedTuple):
    """A prompt, and of two reflections on it the accepted and the rejected one."""

    prompt: str
    accepted: str
    rejected: str


class Judgment(NamedTuple):
    """A prompt, a reflection on it, and whether that is a good one."""

    prompt: str
    reflection: str
    correct: bool


def preferences(pairs: Iterable[RatedPair], pairing: Pairing) -> list[Preference]:
    """List the pairs that tell better from worse, for pairwise training.

    `ordered`: the one with the higher gain is accepted. `positive`: it must be above 0 as well.
    Equal gains, and equal texts, carry no signal and are never a pair.
    """
    found = list[Preference]()
    for pair in pairs:
        (better, worse), (high, low) = pair.tried, pair.gains
        if low > high:
            better, worse, high, low = worse, better, low, high
        if (
            high > low
            and better.reflection != worse.reflection
            and (high > 0 or pairing == "ordered")
        ):
            found.append(Preference(better.prompt, better.reflection, worse.reflection))
    return found


def judgments(pairs: Iterable[RatedPair], pairing: Pairing) -> list[Judgment]:
    """List single reflections with their labels, for training on these.

    `ordered`: of each pair that tells, one good and one bad. `positive`: the labels of figure 23.
    """
    pairs = list(pairs)
    if pairing == "ordered":
        chosen = preferences(pairs, pairing)
        return [
            each
            for one in chosen
            for each in (
                Judgment(one.prompt, one.accepted, correct=True),
                Judgment(one.prompt, one.rejected, correct=False),
            )
        ]
    return [
        Judgment(item.prompt, item.reflection, correct)
        for pair in pairs
        for item, correct in zip(pair.tried, labels(pair.gains).correct, strict=True)
    ]
