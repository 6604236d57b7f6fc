"""The training of a reflector: its request, and its state.

The steps are the source's: reflections are collected and rated, a reward model learns from the
pairs, and the reflector is tuned on that reward. A measurement follows where the tuned reflector
can be reached.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, Self

from pydantic import ConfigDict, FailFast, Field, field_validator, model_validator

from mull.agents.rating import Pairing
from mull.agents.request import Acting, TaskName, Tuning, training_option
from mull.agents.retroformer import TRIED, RolloutRequest, RolloutResult
from mull.agents.training_result import (
    MOST_TASKS,
    BufferCounts,
    Decision,
    Gained,
    Measured,
    Phase,
    RetroformerTrainingResult,
    Stage,
    StageResult,
)
from mull.multipath.request import Folder
from mull.option import bound_option, option
from mull.request import MOST_LISTED, Bounded, ModelName, Record, Seconds
from mull.run import Budget, Counts, Usage, above, add_usage
from mull.text import cut_encoded, cut_with_note, encoded_size, tally_words

TASK_BYTES = 100_000
SHOWN_NAME_BYTES = 100
WARNING_BYTES = 1_000
SHOWN_PAIRS = 200
MOST_SEED = 2**31
SHOWN_ERRORS = 5
HOPELESS = 8
# Stop reasons of rollouts in which a call of a model or an environment failed.
LOST = frozenset({"generation_failed", "evaluation_failed", "environment_failed"})
# The warnings of all rollouts together could exceed the limit on a result's size.
SHOWN_WARNINGS = 50
# Of so many tasks a fifth only measures, but no fewer than this.
MANY_TASKS, LEAST_HELD = 50, 10
# The methods that learn from the reward model's scores.
SCORED = frozenset({"ppo", "rloo"})
# The next phase of each phase but the last.
NEXT: dict[Phase, Phase] = {
    "collecting": "reward_model", "reward_model": "reflector", "reflector": "measuring",
}  # fmt: skip

rollout_option = partial(option, "Rollouts")


class TrainingSoFar(Record):
    """How far a training came: `step` of `of` are those of its phase.

    `seconds` is what earlier executions took.
    """

    seconds: float = 0.0
    phase: Phase = "collecting"
    step: int = 0
    of: int = 0
    before: Measured = Measured()
    others: Measured = Measured()
    held_out: tuple[int, ...] = Field((), max_length=MOST_LISTED)
    after: Measured | None = None
    control: Measured | None = None
    gained: tuple[Gained, ...] = Field((), max_length=MOST_LISTED)
    buffer: str | None = None
    counts: BufferCounts | None = None
    stages: dict[Stage, StageResult] = Field(default_factory=dict)
    usage: Usage = Usage()
    spent: Counts = Counts()
    errors: tuple[str, ...] = Field((), max_length=MOST_LISTED)
    warnings: tuple[str, ...] = Field((), max_length=MOST_LISTED)
    decisions: tuple[Decision, ...] = Field((), max_length=MOST_LISTED)


class RetroformerTrainingRequest(Tuning, Acting, Bounded):
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
    review_timeout_seconds: Seconds | None = Field(
        None, description="Not used: no person reviews these runs."
    )
    reflector: ModelName = rollout_option(..., "The model to tune, as it is called.")
    base_model: ModelName = training_option(
        ..., "Its weights: a folder in MULL_ARTIFACTS, a Hugging Face name, or toy."
    )
    tuned: ModelName | None = training_option(
        None, "The tuned model as it is called, to measure what was gained.", common=True
    )
    held_out: int | None = rollout_option(
        None,
        "How many tasks only measure; of 50 and more a fifth by default, else none.",
        ge=0,
        lt=MOST_TASKS,
    )
    control: bool = rollout_option(
        False, "Train once more, on shuffled labels, and measure that beside it."
    )
    rollouts: int = rollout_option(3, "How often each task is tried.", common=True, ge=1, le=10)
    concurrency: int = rollout_option(4, "The most tasks tried at once.", ge=1, le=50)
    pairing: Pairing | None = training_option(
        None, "Good is what gained more (ordered, the default), or gained at all (positive)."
    )
    temperature: float = rollout_option(
        0.0, "The planner's: low, as it is frozen.", ge=0, le=2, allow_inf_nan=False
    )
    keep_script_verdicts: bool = rollout_option(
        False, "Learn also from tests that ran beside the code, which could forge them."
    )
    reflector_temperature: float = rollout_option(
        0.9, "The temperature of sampled reflections.", gt=0, le=2, allow_inf_nan=False
    )
    stage_timeout_seconds: float = bound_option(
        86_400,
        "Seconds for one stage, waiting included.",
        ge=1,
        le=30 * 86_400,
        allow_inf_nan=False,
    )
    carried: TrainingSoFar | None = Field(
        None, description="What was done in earlier histories; the run sets it itself."
    )

    @field_validator("tasks")
    @classmethod
    def _fit(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        if sum(map(encoded_size, tasks)) > TASK_BYTES:
            raise ValueError(f"the names have more than {TASK_BYTES:,} bytes in all")
        if len(set(tasks)) < len(tasks):
            raise ValueError("a task is named more than once")
        return tasks

    @model_validator(mode="after")
    def _leave_some(self) -> Self:
        if self.held_out is not None and self.held_out >= len(self.tasks):
            raise ValueError("held_out: no task is left to learn from")
        if self.control and self.tuned is None:
            raise ValueError("control: name the tuned model, by which it is measured")
        return self


def held_out(request: RetroformerTrainingRequest) -> int:
    """Tell how many tasks only measure: what was asked for, or else by their number."""
    count = len(request.tasks)
    usual = max(LEAST_HELD, count // 5) if count >= MANY_TASKS else 0
    return usual if request.held_out is None else request.held_out


class Planned(NamedTuple):
    """A rollout to make: a task by its place in the request, and a number from 1."""

    task: int
    rollout: int


class Training(TrainingSoFar):
    """The state of a training. `execution` is the id of the run's first execution."""

    model_config = ConfigDict(frozen=False)

    request: RetroformerTrainingRequest
    workflow_id: str
    execution: str

    def going_on(self, seconds: float) -> RetroformerTrainingRequest:
        """Return the request by which the run goes on in a new history, after so many seconds."""
        known = {name: getattr(self, name) for name in TrainingSoFar.model_fields}
        carried = TrainingSoFar(**known | {"seconds": self.seconds + seconds})
        return self.request.model_copy(update={"carried": carried})

    def controlled(self, run: str) -> RetroformerTrainingRequest:
        """Return the request of a training on shuffled labels, which collects nothing itself."""
        carried = TrainingSoFar(
            phase="reward_model",
            before=self.before,
            others=self.others,
            held_out=self.held_out,
            buffer=self.buffer,
            counts=self.counts,
            spent=self.spent,
        )
        tuned = (self.request.tuned or "").removesuffix(self.workflow_id) + run
        known = {"control": False, "tuned": tuned, "carried": carried}
        return self.request.model_copy(update=known)

    @property
    def stopped(self) -> bool:
        """Whether the newest decision ends the run."""
        return bool(self.decisions) and self.decisions[-1].stop_reason is not None

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        if (said := cut_with_note(warning, WARNING_BYTES)) not in self.warnings:
            self.warnings = (*self.warnings, said)

    def begin(self, phase: Phase) -> None:
        """Begin a phase. How many steps a stage has it says itself."""
        self.phase, self.step = phase, 0
        if phase == "measuring":
            self.after = Measured()
        rolls_out = phase in {"collecting", "measuring"}
        self.of = len(self._tried) * self.request.rollouts if rolls_out else 0

    def hold_out(self) -> None:
        """Draw the tasks that only measure, by the seed."""
        request, count, held = self.request, len(self.request.tasks), held_out(self.request)
        drawn = sorted(range(count), key=lambda n: sha256(f"{request.seed} {n}".encode()).digest())
        self.held_out = tuple(sorted(drawn[:held]))
        if not held and request.tuned is not None:
            self.warn("no task is held out: the gain is measured on what was trained on")

    @property
    def _tried(self) -> Sequence[int]:
        """The places of the tasks that a phase tries."""
        measures = self.phase == "measuring"
        return (measures and self.held_out) or range(len(self.request.tasks))

    def planned(self) -> Iterator[Planned]:
        """Plan the rollouts that are left: all tasks once, then all again, as the source does."""
        tried = self._tried
        for number in range(self.step, len(tried) * self.request.rollouts):
            yield Planned(tried[number % len(tried)], number // len(tried) + 1)

    def rollout_id(self, planned: Planned) -> str:
        """Name the workflow of a rollout."""
        return f"{self.workflow_id}/{self.phase}/{planned.rollout}/{planned.task + 1}"

    def rollout(self, planned: Planned) -> RolloutRequest:
        """Build the request of a rollout; each has other seeds for its two reflections."""
        request = self.request
        number = planned.task * request.rollouts + planned.rollout - 1
        measures = self.phase == "measuring"
        shared = (*Acting.model_fields, "model", "max_attempts", "keep_script_verdicts")
        return RolloutRequest(
            **{name: getattr(request, name) for name in shared},
            task=request.tasks[planned.task],
            tasks=request.task_file,
            reflector=request.tuned if measures else request.reflector,
            reflection_temperature=request.reflector_temperature,
            seed=(request.seed + TRIED * number) % MOST_SEED,
            training=self.workflow_id,
            execution=self.execution,
            rollout=planned.rollout,
            kept=not measures,
            held_out=planned.task in self.held_out,
        )

    def has_room(self, in_flight: int) -> bool:
        """Tell whether the budget has room for one more rollout beside those in flight."""
        budget = Budget(self.request.budget_tokens, self.request.budget_usd)
        reason = self.spent.no_room(budget, in_flight)
        if reason is not None and not in_flight:
            self.warn(f"no more rollouts were made: {reason}")
        return reason is None

    def pay(self, used: Usage, **ended: int) -> None:
        """Count what was spent, by so many rollouts that `ended`."""
        self.usage = add_usage(self.usage, used)
        self.spent += Counts.of([(used.tokens, used.cost_usd)], **ended)

    def ended(self, planned: Planned, result: RolloutResult) -> None:
        """Count a rollout; one whose calls failed is a failed one, too."""
        self.pay(result.usage, completed=1)
        for warning in result.warnings[:SHOWN_ERRORS]:
            if len(self.warnings) < SHOWN_WARNINGS:
                self.warn(warning)
        if result.stop_reason in LOST:
            self.failed(planned, f"{result.stop_reason}: {result.stop_explanation}")
            return
        self.step += 1
        made, good = len(result.gains), sum(above(gain, 0) for gain in result.gains)
        counted = Measured(
            made=1,
            solved=int(result.solved),
            reflections=made,
            good=good,
            helped=sum(result.helped),
            by_task={planned.task: (good, made)} if made else {},
        )
        self._measure(planned, counted)
        if result.gains and self.after is None:
            task = cut_encoded(result.task, SHOWN_NAME_BYTES)
            one = Gained(
                task=task, rollout=result.rollout, gains=result.gains, helped=result.helped
            )
            self.gained = (*self.gained, one)[-SHOWN_PAIRS:]

    def failed(self, planned: Planned, error: str) -> None:
        """Count a rollout that failed; the first few errors are shown."""
        self.step += 1
        if len(self.errors) < SHOWN_ERRORS:
            self.errors = (*self.errors, cut_with_note(error, WARNING_BYTES))
            self.warn(f"a rollout failed: {error}")
        self._measure(planned, Measured(made=1, failed=1))

    def _measure(self, planned: Planned, one: Measured) -> None:
        if self.after is not None:
            self.after += one
        elif self.held_out and planned.task not in self.held_out:
            self.others += one
        else:
            self.before += one

    @property
    def collected(self) -> Measured:
        """The results of all rollouts with the untrained reflector."""
        return self.before + self.others

    @property
    def hopeless(self) -> bool:
        """Whether the first few rollouts of a phase have all failed, as the next ones will."""
        measured = self.collected if self.after is None else self.after
        return measured.failed == measured.made >= HOPELESS

    @property
    def pairing(self) -> Pairing:
        """How the pairs are chosen that are learned from."""
        return self.request.pairing or "ordered"

    @property
    def no_signal(self) -> str:
        """Say why nothing can be learned from the replay buffer; empty if something can."""
        counts = self.counts or BufferCounts()
        rated = f"{tally_words(counts.pairs, 'pair')} of reflections"
        if not counts.pairs:
            why = f"no reflections were rated in {tally_words(self.collected.made, 'rollout')}"
        elif self.pairing == "positive" and not counts.good:
            why = f"of {rated} none gained anything"
        elif not counts.preferences:
            alike = f"{counts.equal} with equal gains and {counts.identical} with the same text"
            why = f"{rated}, {alike}"
        else:
            return ""
        return f"nothing to learn from: {why}"

    @property
    def nothing_learned(self) -> str:
        """Say why what was trained is not to be used; empty if nothing speaks against it."""
        if self.after is not None:
            gain, error = self.after.gain(self.before)
            said = f"the share of good reflections on tasks held out changed by {gain:+.2f}"
            known = self.held_out and None not in (self.before.share_good, self.after.share_good)
            return "" if not known or above(gain, error) else f"{said}, its error is {error:.2f}"
        tested = self.stages.get("reward_model")
        if self.request.method in SCORED and tested and tested.no_better_than_chance:
            return f"the reward model was right on {tested.right} of {tested.tested} held-out pairs"
        return ""

    def decide(
        self, reason: str, at: datetime, stop_reason: Any = None, author: str | None = None
    ) -> Decision:
        """Record that a phase is done, and begin the next one, or end the training."""
        decision = Decision(
            phase=self.phase,
            next=None if stop_reason else NEXT[self.phase],
            stop=stop_reason is not None,
            stop_reason=stop_reason,
            reason=reason,
            author=author,
            at=at,
        )
        self.decisions = (*self.decisions, decision)
        if decision.next:
            self.begin(decision.next)
        return decision

    def record(self, **under_way: Any) -> RetroformerTrainingResult:
        """Say where the training stands, and what came of it; `under_way` is empty in the end."""
        folders = {stage: trained.folder for stage, trained in self.stages.items()}
        known = {
            **dict(self.request),
            **dict(self),
            "tasks": len(self.request.tasks),
            "model": self.request.reflector,
            "reward_model": folders.get("reward_model"),
            "tuned_reflector": folders.get("reflector"),
        }
        if self.stopped:
            last = self.decisions[-1]
            ended = {"stop_reason": last.stop_reason, "stop_explanation": last.reason}
            return RetroformerTrainingResult(**known | ended | {"step": "", "of": 0})
        going = {"step": self.phase, "done": self.step, **under_way}
        return RetroformerTrainingResult(**known | going)
