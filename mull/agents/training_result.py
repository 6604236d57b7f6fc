"""The record of a training: what was rated, trained and measured."""

from collections import defaultdict
from math import fsum, sqrt
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from mull.drafts import RunRecord
from mull.request import MOST_LISTED, MOST_MEMBERS, Record
from mull.run import Decided, above
from mull.text import Shown, spaced, tally_words

Method = Literal["ppo", "rloo", "kto", "dpo"]
Stage = Literal["reward_model", "reflector"]
Phase = Literal["collecting", "reward_model", "reflector", "measuring"]
MOST_POINTS, MOST_TASKS = 100, 500
# Fewer rows than this give a warning, and a doubt.
FEW_ROWS = 20
StopReason = Literal["trained", "no_signal", "deadline", "finished_by_person"]


class LogPoint(Record):
    """What the trainer logged at a step, from 1: numbers by the names that TRL gives them."""

    step: int
    values: dict[str, FiniteFloat] = Field(max_length=MOST_MEMBERS)


class BufferCounts(Record):
    """What a replay buffer holds.

    `good` reflections have a gain above 0. Of the pairs, `equal` have equal gains, `identical`
    the same text twice, and `preferences` are left for pairwise training. Those `held_out` are of
    other tasks, and counted nowhere else.
    """

    pairs: int = 0
    good: int = 0
    equal: int = 0
    identical: int = 0
    preferences: int = 0
    held_out: int = 0


class StageResult(Record):
    """A model that was trained; `folder` is relative to MULL_ARTIFACTS.

    `resumed_at` are the steps at which it went on after a worker was lost, `anew` how often it
    began anew instead. `settings` are those that the model was trained with, also where the request
    named none, `base_sha256` and `data_sha256` the hashes of the base's weights and of the replay
    buffer. A reward model preferred the better reflection of `right` of the `tested` pairs held
    out. `log` is the trainer's own, thinned evenly to at most 100 points.
    """

    folder: str
    steps: Annotated[int, Shown("steps|number")]
    examples: Annotated[int, Shown("examples|number")]
    seconds: Annotated[float, Shown("seconds|number", round)]
    device: Annotated[str, Shown("on|extra")]
    settings: dict[str, FiniteFloat] = Field(default_factory=dict, max_length=MOST_MEMBERS)
    base_sha256: str = ""
    data_sha256: str = ""
    log: tuple[LogPoint, ...] = Field((), max_length=MOST_LISTED)
    resumed_at: tuple[int, ...] = Field((), max_length=MOST_LISTED)
    anew: int = 0
    warnings: tuple[str, ...] = Field((), max_length=MOST_LISTED)
    tested: int = 0
    right: int = 0

    @property
    def no_better_than_chance(self) -> bool:
        """Whether a reward model is right no more often than one half and its standard error."""
        return self.tested > 0 and self.right / self.tested <= 0.5 + 0.5 / sqrt(self.tested)


class StageStep(Record):
    """How far a stage came, as its worker tells the run: `step` of `of` steps."""

    stage: Stage
    step: int
    of: int


class Gained(Record):
    """What the two reflections of a rollout gained, and whether the task was solved with them."""

    task: str
    rollout: int
    gains: tuple[float, ...] = Field(max_length=MOST_LISTED)
    helped: tuple[bool, ...] = Field(max_length=MOST_LISTED)


class Measured(Record):
    """What came of all rollouts with one reflector, untrained or tuned.

    Of the `made` ones `solved` succeeded at once. Of the `reflections` on the others, `good` ones
    gained something, and with `helped` ones the task was solved. `by_task` has the good reflections
    on each task, by its place, and all of them.
    """

    made: int = 0
    solved: int = 0
    failed: int = 0
    reflections: int = 0
    good: int = 0
    helped: int = 0
    by_task: dict[int, tuple[int, int]] = Field(default_factory=dict, max_length=MOST_TASKS)

    @property
    def share_good(self) -> float | None:
        """The share of good reflections; None where there are none at all."""
        return self.good / self.reflections if self.reflections else None

    @property
    def error(self) -> float:
        """The standard error of the share of good reflections; 0 for none."""
        return _error(self)

    def gain(self, before: "Measured") -> tuple[float, float]:
        """By how much the share of good reflections rose, and the standard error of that."""
        return (self.share_good or 0.0) - (before.share_good or 0.0), _error(self, before)

    @property
    def share_helped(self) -> float | None:
        """The share of reflections with which the task was solved; None where there are none."""
        return self.helped / self.reflections if self.reflections else None

    def __add__(self, more: "Measured") -> "Measured":
        """Add up what came of other rollouts."""
        sums = {name: n + getattr(more, name) for name, n in self if name != "by_task"}
        places = {**self.by_task, **more.by_task}
        for place in self.by_task.keys() & more.by_task.keys():
            (good, made), (others, all_others) = self.by_task[place], more.by_task[place]
            places[place] = good + others, made + all_others
        # Rollouts end in any order.
        return Measured(**sums, by_task=dict(sorted(places.items())))


def _error(*measured: Measured) -> float:
    """Compute the standard error of a share, or of one less another on the same tasks.

    Reflections on one task are alike, so that tasks are drawn, not reflections: Cochran (1977),
    Sampling techniques, 3rd edition, 6.4, of a ratio. It is never below that of independent ones,
    of which one good and one bad more are supposed: a share of 0 or 1 would have no error.
    """
    alone, moved = 0.0, defaultdict[int, float](float)
    for one, sign in zip(measured, (1, -1), strict=False):
        if one.reflections:
            share = (one.good + 1) / (one.reflections + 2)
            alone += share * (1 - share) / one.reflections
        for place, (good, made) in one.by_task.items():
            moved[place] += sign * (good - (one.share_good or 0.0) * made) / one.reflections
    tasks = len(moved)
    together = fsum(part**2 for part in moved.values()) * tasks / max(1, tasks - 1)
    return sqrt(max(alone, together))


class Decision(Decided):
    """What comes after a phase, and why."""

    phase: Annotated[Phase, Shown("after")]
    next: Phase | None
    stop_reason: StopReason | None


class RetroformerTrainingResult(RunRecord):
    """What was trained, where it lies, what it is worth, and why the training ended.

    `before` is measured with the untrained reflector, `after` with the tuned one, None where that
    was not measured: both on the tasks `held_out`, by their places, where there are any. `others`
    is then measured with the untrained one on all other tasks, and `control` with one that was
    trained on shuffled labels. `gained` has the newest 200 pairs. While the training goes on,
    `step` is its phase, of whose `of` steps so many are `done`.
    """

    answer_field = "tuned_reflector"

    environment: str
    tasks: int
    rollouts: int
    method: Annotated[Method, Shown("method")]
    reflector: str
    base_model: Annotated[str, Shown("trained from")]
    before: Measured
    others: Measured = Measured()
    held_out: tuple[int, ...] = Field((), max_length=MOST_LISTED)
    after: Measured | None
    control: Measured | None = None
    gained: tuple[Gained, ...]
    buffer: Annotated[str | None, Shown("replay buffer")]
    counts: BufferCounts | None
    stages: dict[Stage, StageResult]
    reward_model: str | None
    tuned_reflector: str | None
    stop_reason: StopReason | None = None
    decisions: tuple[Decision, ...]
    done: int = 0
    of: int = 0

    @property
    def doubt(self) -> str:
        """Say why not to build on it: it ended early, gained too little, or shows too little."""
        if self.stop_reason != "trained":
            return self.stop_explanation
        few = [
            f"the {spaced(stage)} learned from only {tally_words(one.examples, 'row')}"
            for stage, one in self.stages.items()
            if one.examples < FEW_ROWS
        ]
        if self.after is not None and not self.held_out:
            few.append("the gain is measured on the tasks that were learned from")
        return self._no_gain or "".join(few[:1])

    @property
    def _no_gain(self) -> str:
        """Say why the measured gain may be none; empty where it is one, or was not measured."""
        after = self.after
        if after is None or after.solved == after.made > 0:
            return ""
        if self.before.share_good is None or after.share_good is None:
            which = "tuned" if after.share_good is None else "untrained"
            return f"no reflection of the {which} reflector was rated, so the gain is not known"
        gain, error = after.gain(self.before)
        if not above(gain, 0):
            return "the tuned reflections are no better than those before"
        said = f"the share of good reflections rose by {gain:.2f}, which may be chance"
        return "" if above(gain, 2 * error) else f"{said}: two standard errors are {2 * error:.2f}"
