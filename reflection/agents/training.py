"""The training of a reflector: its request, how far it came, and its result.

The steps are the source's: reflections are collected and rated, a reward model learns from the
pairs, and the reflector is tuned on that reward. A measurement follows where the tuned reflector
can be reached.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import FailFast, Field, FiniteFloat

from reflection.agents.rating import Pairing
from reflection.agents.request import Acting, TaskName
from reflection.agents.retroformer import TRIED, RolloutRequest, RolloutResult
from reflection.multipath.request import Folder
from reflection.request import Bounded, Frozen, ModelName, Record
from reflection.run import Room, Usage, add_usage, room_for, usage
from reflection.text import tally_words

Method = Literal["ppo", "rloo", "kto", "dpo"]
Stage = Literal["reward_model", "reflector"]
Phase = Literal["collecting", "reward_model", "reflector", "measuring"]
StopReason = Literal["trained", "no_signal", "deadline", "finished_by_person"]
MOST_TASKS = 500
SHOWN_PAIRS = 200
MOST_SEED = 2**31
SHOWN_ERRORS = 5
HOPELESS = 8
# How a rollout ends whose calls of a model or an environment failed.
LOST = frozenset({"generation_failed", "evaluation_failed", "environment_failed"})
# The warnings of all rollouts together could exceed the limit on a result's size.
SHOWN_WARNINGS = 50
MOST_POINTS = 100
# What a result repeats of its request.
REPEATED = ("environment", "rollouts", "method", "reflector", "base_model")


class LogPoint(Record):
    """What the trainer logged at a step, from 1: numbers by the names that TRL gives them."""

    step: int
    values: dict[str, FiniteFloat]


class BufferCounts(Record):
    """What a replay buffer holds.

    `good` reflections have a gain above 0. Of the pairs, `equal` have equal gains, `identical`
    the same text twice, and `preferences` are left for pairwise training.
    """

    pairs: int = 0
    good: int = 0
    equal: int = 0
    identical: int = 0
    preferences: int = 0

    @property
    def share_good(self) -> float | None:
        """The share of good reflections; None where there are none at all."""
        return self.good / (2 * self.pairs) if self.pairs else None


class Tuning(Frozen):
    """How a model is trained; `max_length` is in tokens, None the method's own default."""

    method: Method = Field("ppo", description="What tunes the reflector.")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="The seed of sampling and of training.")
    epochs: float | None = Field(
        None, gt=0, le=1_000, allow_inf_nan=False, description="Passes over the rows."
    )
    learning_rate: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="The learning rate of a step."
    )
    batch_size: int | None = Field(None, ge=1, le=1_024, description="Rows of a step.")
    max_length: int | None = Field(None, ge=16, le=131_072, description="Tokens of a row.")


class RetroformerTrainingRequest(Bounded, Acting, Tuning):
    """Tasks of an environment, the model to tune on them, and how.

    The tasks are named, never quoted. `reflector` is the model as it is called while reflections
    are collected, `base_model` the same one's weights: a folder in MULL_ARTIFACTS, or the name of a
    Hugging Face model. Without `tuned` it is not measured how good the tuned reflections are.
    """

    subject_field = "environment"

    tasks: Annotated[tuple[TaskName, ...], FailFast()] = Field(
        min_length=1, max_length=MOST_TASKS, description="The tasks' names."
    )
    task_file: Folder | None = Field(
        None, description="The file of the tasks, on the worker's machine, for code and documents."
    )
    reflector: ModelName = Field(description="The model to tune, as it is called.")
    base_model: ModelName = Field(
        description="Its weights: a folder in MULL_ARTIFACTS, or a Hugging Face name."
    )
    tuned: ModelName | None = Field(
        None, description="The tuned model as it is called, to measure what was gained."
    )
    rollouts: int = Field(3, ge=1, le=10, description="How often each task is tried.")
    concurrency: int = Field(4, ge=1, le=50, description="The most tasks tried at once.")
    pairing: Pairing | None = Field(
        None,
        description="Pairs: ordered by gain, or a gain above 0 (positive); else the method's own.",
    )
    temperature: float = Field(
        0.0, ge=0, le=2, allow_inf_nan=False, description="The planner's: low, as it is frozen."
    )
    reflector_temperature: float = Field(
        0.9, gt=0, le=2, allow_inf_nan=False, description="The temperature of sampled reflections."
    )
    stage_timeout_seconds: float = Field(
        86_400, ge=1, le=30 * 86_400, allow_inf_nan=False, description="Seconds for one stage."
    )

    @property
    def all_rollouts(self) -> int:
        """How many rollouts are planned."""
        return self.rollouts * len(self.tasks)


class StageResult(Record):
    """A model that was trained; `folder` is relative to MULL_ARTIFACTS.

    `resumed_at` are the steps at which it went on after a worker was lost, `anew` how often it
    began anew instead. `log` is the trainer's own, thinned evenly to at most 100 points.
    """

    folder: str
    steps: int
    examples: int
    seconds: float
    device: str
    log: tuple[LogPoint, ...] = ()
    resumed_at: tuple[int, ...] = ()
    anew: int = 0
    warnings: tuple[str, ...] = ()


class StageStep(Record):
    """How far a stage came, as its worker tells the run: `step` of `of` steps."""

    stage: Stage
    step: int
    of: int


class Gained(Record):
    """What the two reflections of a rollout gained, and whether the task was solved with them."""

    task: str
    rollout: int
    gains: tuple[float, ...]
    helped: tuple[bool, ...]


class Measured(Record):
    """What came of all rollouts with one reflector, untrained or tuned.

    Of the `made` ones `solved` succeeded at once. Of the `reflections` on the others, `good` ones
    gained something, and with `helped` ones the task was solved.
    """

    made: int = 0
    solved: int = 0
    failed: int = 0
    reflections: int = 0
    good: int = 0
    helped: int = 0

    @property
    def share_good(self) -> float | None:
        """The share of good reflections; None where there are none at all."""
        return self.good / self.reflections if self.reflections else None

    @property
    def variance(self) -> float:
        """The variance of the share of good reflections, if they are independent; 0 for none."""
        share = self.share_good
        return 0.0 if share is None else share * (1 - share) / self.reflections

    @property
    def share_helped(self) -> float | None:
        """The share of reflections with which the task was solved; None where there are none."""
        return self.helped / self.reflections if self.reflections else None

    def __add__(self, more: "Measured") -> "Measured":
        """Add up what came of other rollouts."""
        return Measured(**{name: count + getattr(more, name) for name, count in self})


class Decision(Record):
    """What comes after a phase, and why."""

    phase: Phase
    next: Phase | None
    stop: bool
    stop_reason: StopReason | None
    reason: str
    author: str | None = None
    at: datetime | None = None


class Standing(Record):
    """What the progress and the result of a training share.

    `before` is measured with the untrained reflector, `after` with the tuned one, None where that
    was not measured. `gained` has the newest 200 pairs.
    """

    environment: str
    tasks: int
    rollouts: int
    method: Method
    reflector: str
    base_model: str
    before: Measured
    after: Measured | None
    gained: tuple[Gained, ...]
    buffer: str | None
    counts: BufferCounts | None
    stages: dict[Stage, StageResult]
    usage: Usage
    warnings: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model that reflected, as it is called."""
        return self.reflector


class Progress(Standing):
    """Where a training stands; `step` of `of` are those of its phase."""

    phase: Phase
    step: int
    of: int
    stop_reason: StopReason | None = None
    review_until: datetime | None = None


class RetroformerTrainingResult(Standing):
    """What was trained, where it lies, what it is worth, and why the training ended."""

    reward_model: str | None
    tuned_reflector: str | None
    stop_reason: StopReason
    stop_explanation: str
    decisions: tuple[Decision, ...]

    @property
    def doubt(self) -> str:
        """Say why not to build on it; empty for a training that was ended by nothing else."""
        if self.stop_reason != "trained":
            return self.stop_explanation
        after = self.after
        if after is None or self.before.share_good is None or after.solved == after.made > 0:
            return ""
        if after.share_good is None:
            return "no reflection of the tuned reflector was rated"
        gain = after.share_good - self.before.share_good
        if gain <= 0:
            return "the tuned reflections are no better than those before"
        chance = 2 * sqrt(self.before.variance + after.variance)
        said = f"the share of good reflections rose by {gain:.2f}, which may be chance"
        return "" if gain > chance else f"{said}: two standard errors are {chance:.2f}"


class Planned(NamedTuple):
    """A rollout to make: a task by its place in the request, and a number from 1."""

    task: int
    rollout: int


class Sizes(NamedTuple):
    """What rollouts spent: in all, the largest, and how many did not report it."""

    whole: float = 0.0
    largest: float | None = None
    unknown: int = 0

    def add(self, size: float | None) -> "Sizes":
        """Count a rollout."""
        if size is None:
            return self._replace(unknown=self.unknown + 1)
        largest = size if self.largest is None else max(self.largest, size)
        return self._replace(whole=self.whole + size, largest=largest)

    @property
    def likely(self) -> float | None:
        """All of it, where one that did not report is as large as the largest."""
        return None if self.largest is None else self.whole + self.largest * self.unknown

    def room(self, unit: str, bound: float | None, wanted: int) -> Room:
        """Return how many of `wanted` rollouts fit, each as large as the largest so far."""
        spent = [] if self == Sizes() else [self.likely]
        took = "a rollout took up to"
        return room_for(unit, bound, spent, wanted, self.largest, "rollout", took)


@dataclass
class Training:
    """How far a training came."""

    request: RetroformerTrainingRequest
    workflow_id: str
    phase: Phase = "collecting"
    step: int = 0
    of: int = 0
    before: Measured = field(default_factory=Measured)
    after: Measured | None = None
    gained: list[Gained] = field(default_factory=list)
    buffer: str | None = None
    counts: BufferCounts | None = None
    stages: dict[Stage, StageResult] = field(default_factory=dict)
    used: Usage = field(default_factory=lambda: usage({}, 0, 0))
    tokens: Sizes = field(default_factory=Sizes)
    costs: Sizes = field(default_factory=Sizes)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        """Whether the newest decision ends the run."""
        return bool(self.decisions) and self.decisions[-1].stop

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def begin(self, phase: Phase, steps: int = 0) -> None:
        """Begin a phase of so many steps."""
        self.phase, self.step, self.of = phase, 0, steps
        if phase == "measuring":
            self.after = Measured()

    def planned(self) -> Iterator[Planned]:
        """Plan the rollouts: all tasks once, then all again, as the source does."""
        for rollout in range(1, self.request.rollouts + 1):
            for task in range(len(self.request.tasks)):
                yield Planned(task, rollout)

    def rollout_id(self, planned: Planned) -> str:
        """Name the workflow of a rollout."""
        return f"{self.workflow_id}/{self.phase}/{planned.rollout}/{planned.task + 1}"

    def rollout(self, planned: Planned) -> RolloutRequest:
        """Build the request of a rollout; each has other seeds for its two reflections."""
        request = self.request
        number = planned.task * request.rollouts + planned.rollout - 1
        measures = self.phase == "measuring"
        shared = (*Acting.model_fields, "model", "max_attempts")
        return RolloutRequest(
            **{name: getattr(request, name) for name in shared},
            task=request.tasks[planned.task],
            tasks=request.task_file,
            reflector=request.tuned if measures else request.reflector,
            reflection_temperature=request.reflector_temperature,
            seed=(request.seed + TRIED * number) % MOST_SEED,
            training=self.workflow_id,
            rollout=planned.rollout,
            kept=not measures,
        )

    def has_room(self, in_flight: int) -> bool:
        """Tell whether the budget has room for one more rollout beside those in flight."""
        wanted, request = in_flight + 1, self.request
        fits = min(
            self.tokens.room("tokens", request.budget_tokens, wanted),
            self.costs.room("US dollars", request.budget_usd, wanted),
            key=lambda each: each.calls,
        )
        if fits.calls <= in_flight and not in_flight:
            self.warn(f"no more rollouts were made: {fits.reason}")
        return fits.calls > in_flight

    def ended(self, result: RolloutResult) -> None:
        """Count a rollout; one whose calls failed is a failed one, too."""
        self.used = add_usage(self.used, result.usage)
        self.tokens = self.tokens.add(result.usage.tokens)
        self.costs = self.costs.add(result.usage.cost_usd)
        for warning in result.warnings[:SHOWN_ERRORS]:
            if len(self.warnings) < SHOWN_WARNINGS:
                self.warn(warning)
        if result.stop_reason in LOST:
            self.failed(f"{result.stop_reason}: {result.stop_explanation}")
            return
        self.step += 1
        self._measure(
            Measured(
                made=1,
                solved=int(result.solved),
                reflections=len(result.gains),
                good=sum(gain > 0 for gain in result.gains),
                helped=sum(result.helped),
            )
        )
        if result.gains and self.after is None:
            one = Gained(
                task=result.task, rollout=result.rollout, gains=result.gains, helped=result.helped
            )
            self.gained = [*self.gained, one][-SHOWN_PAIRS:]

    def failed(self, error: str) -> None:
        """Count a rollout that failed; the first few errors are shown."""
        self.step += 1
        self.errors.append(error)
        if len(self.errors) <= SHOWN_ERRORS:
            self.warn(f"a rollout failed: {error}")
        self._measure(Measured(made=1, failed=1))

    def _measure(self, one: Measured) -> None:
        if self.after is not None:
            self.after += one
        else:
            self.before += one

    @property
    def hopeless(self) -> bool:
        """Whether the first few rollouts of a phase have all failed, as the next ones will."""
        measured = self.before if self.after is None else self.after
        return measured.failed == measured.made >= HOPELESS

    @property
    def pairing(self) -> Pairing:
        """How the reward model's pairs are chosen."""
        return self.request.pairing or "ordered"

    @property
    def tuning_pairing(self) -> Pairing:
        """How those are chosen that the reflector learns from."""
        labels = self.request.method == "kto"
        return self.request.pairing or ("positive" if labels else "ordered")

    @property
    def no_signal(self) -> str:
        """Say why nothing can be learned from the replay buffer; empty if something can."""
        counts = self.counts or BufferCounts()
        rated = f"of {tally_words(counts.pairs, 'pair')} of reflections"
        if not counts.pairs:
            why = f"no reflections were rated in {tally_words(self.before.made, 'rollout')}"
        elif self.tuning_pairing == "positive" and not counts.good:
            why = f"{rated} none gained anything"
        elif not counts.preferences:
            why = f"{rated} {counts.equal} have equal gains and {counts.identical} the same text"
        else:
            return ""
        return f"nothing to learn from: {why}"

    def decide(
        self,
        reason: str,
        at: datetime,
        *,
        next_phase: Phase | None = None,
        stop_reason: StopReason | None = None,
        author: str | None = None,
    ) -> Decision:
        """Record that a phase is done, and what follows: the next one, or the end."""
        decision = Decision(
            phase=self.phase,
            next=next_phase,
            stop=stop_reason is not None,
            stop_reason=stop_reason,
            reason=reason,
            author=author,
            at=at,
        )
        self.decisions.append(decision)
        return decision

    def _standing(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.request, name) for name in REPEATED},
            "tasks": len(self.request.tasks),
            "before": self.before,
            "after": self.after,
            "gained": tuple(self.gained),
            "buffer": self.buffer,
            "counts": self.counts,
            "stages": self.stages,
            "usage": self.used,
            "warnings": tuple(self.warnings),
        }

    def progress(self) -> Progress:
        """Say where the training stands."""
        return Progress(
            **self._standing(),
            phase=self.phase,
            step=self.step,
            of=self.of,
            stop_reason=self.decisions[-1].stop_reason if self.decisions else None,
        )

    def result(self) -> RetroformerTrainingResult:
        """Build the result. Raises ValueError before the training ends."""
        last = self.decisions[-1] if self.decisions else None
        if last is None or last.stop_reason is None:
            raise ValueError("the training has not ended")
        folders = {stage: trained.folder for stage, trained in self.stages.items()}
        return RetroformerTrainingResult(
            **self._standing(),
            reward_model=folders.get("reward_model"),
            tuned_reflector=folders.get("reflector"),
            stop_reason=last.stop_reason,
            stop_explanation=last.reason,
            decisions=tuple(self.decisions),
        )
