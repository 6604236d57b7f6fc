"""The rating of reflections: two of one prompt, each tried in a next episode, and their gains.

The gain of a reflection is the return of the episode that read it less that of the failed one.
Source: FALAA's formal description of Retroformer, figures 21 to 24, and Algorithm 1 of Retroformer.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, computed_field

from mull.agents.memory import TrainItem
from mull.agents.training_result import BufferCounts
from mull.request import Record
from mull.run import above, at_least

Pairing = Literal["ordered", "positive"]


class RatedPair(Record):
    """Two reflections of one failed episode, with the prompt and the returns after them.

    `first_return` is the failed episode's. `rollout` counts from 1, `temperature` is the
    reflector's, and `seeds` are those of the samples. Nothing learns from what is `held_out`.
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
    tried: Annotated[tuple[TrainItem, ...], Field(min_length=2, max_length=2)]
    seeds: tuple[int | None, ...] = ()
    held_out: bool = False

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gains(self) -> tuple[float, float]:
        """G(next) − G for each reflection."""
        first, second = self.tried
        return first.rewards - self.first_return, second.rewards - self.first_return

    @computed_field  # type: ignore[prop-decorator]
    @property
    def correct(self) -> tuple[bool, bool]:
        """Whether each is a good one, as figure 23 has it: no gain is higher, and it is above 0."""
        first, second = self.gains
        good = above(first, 0), above(second, 0)
        return good[0] and at_least(first, second), good[1] and at_least(second, first)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def undetermined(self) -> bool:
        """Whether both are good ones, and so alike."""
        return all(self.correct)

    def gaining(self, *gains: float) -> "RatedPair":
        """Return it with other gains."""
        tried = tuple(
            one.model_copy(update={"rewards": self.first_return + gain})
            for one, gain in zip(self.tried, gains, strict=True)
        )
        return self.model_copy(update={"tried": tried})

    @property
    def equal(self) -> bool:
        """Whether neither gains more than the other."""
        first, second = self.gains
        return not (above(first, second) or above(second, first))


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
            not pair.equal
            and better.reflection != worse.reflection
            and (above(high, 0) or pairing == "ordered")
        ):
            found.append(Preference(better.prompt, better.reflection, worse.reflection))
    return found


def judgments(pairs: Iterable[RatedPair], pairing: Pairing) -> list[Judgment]:
    """List single reflections with their labels, for training on these.

    `ordered`: of each pair that tells, one good and one bad. `positive`: the labels of figure 23. A
    blank one is left out: all that it would teach is to go on where a text should end.
    """
    if pairing == "ordered":
        return [
            judgment
            for prompt, accepted, rejected in preferences(pairs, pairing)
            for judgment in (Judgment(prompt, accepted, True), Judgment(prompt, rejected, False))
        ]
    return [
        Judgment(item.prompt, item.reflection, correct)
        for pair in pairs
        for item, correct in zip(pair.tried, pair.correct, strict=True)
        if item.reflection.strip()
    ]


def count(buffer: Sequence[RatedPair], pairing: Pairing) -> BufferCounts:
    """Count what a replay buffer holds to learn from, and what else."""
    pairs = [pair for pair in buffer if not pair.held_out]
    return BufferCounts(
        held_out=len(buffer) - len(pairs),
        pairs=len(pairs),
        good=sum(above(gain, 0) for pair in pairs for gain in pair.gains),
        equal=sum(pair.equal for pair in pairs),
        identical=sum(len({item.reflection for item in pair.tried}) == 1 for pair in pairs),
        preferences=len(preferences(pairs, pairing)),
    )
