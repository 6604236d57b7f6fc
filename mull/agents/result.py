"""The record of a Reflexion run: its episodes, its decisions, and its result."""

from typing import Annotated, Literal

from pydantic import Field

from mull.agents.memory import Action, AnyTrajectory, Reflection
from mull.agents.request import Strategy
from mull.drafts import RunRecord
from mull.request import Record
from mull.run import Decided
from mull.text import Shown, spaced

StopReason = Literal[
    "solved",
    "episode_limit",
    "budget",
    "deadline",
    "repeated_action",
    "repeated_reflection",
    "plateau",
    "generation_failed",
    "evaluation_failed",
    "environment_failed",
    "finished_by_person",
]
NOT_APART = "no hidden test ran apart from the code"
VerifiedBy = Literal["cases", "script"]
Status = Literal["solved", "exhausted", "no_answer"]
EpisodeEnd = Literal["answered", "done", "step_limit", "repeated_action", "too_long", "cut_short"]


class Episode(Record):
    """One episode: what was done, how it ended, and what it is worth.

    `number` counts from 1. `episode_return` is the sum of the rewards of its steps and of its end;
    that and `correct` are None for an episode that was not evaluated. `metrics` are those of the
    environment, `reflections` how many its planner read, `reflection` what was made of its failure.
    `scores` are Retroformer's: those of the reflections that it chose from, None for no number.
    `verified_by` is `script` where tests ran beside the code, which could forge what they say.
    """

    number: int
    trajectory: AnyTrajectory
    answer: str | None
    ended: Annotated[EpisodeEnd, Shown("ended", spaced)]
    steps: Annotated[int, Shown("steps|number")]
    episode_return: Annotated[float | None, Shown("return|number")] = None
    correct: Annotated[bool | None, Shown("correct", {True: "yes", False: "no"}.get, "unknown")] = (
        None
    )
    feedback: str = ""
    metrics: dict[str, float] = Field(default_factory=dict)
    verified_by: VerifiedBy | None = None
    reflections: Annotated[int, Shown("reflections read|number|extra")] = 0
    reflection: str | None = None
    scores: tuple[float | None, ...] = ()

    @property
    def stuck_in(self) -> str | None:
        """The action that the episode repeated until it was ended for that."""
        acted = [item for item in self.trajectory.items if isinstance(item, Action)]
        return acted[-1].content.strip() if self.ended == "repeated_action" else None


class Decision(Decided):
    """What comes after an episode, and what it was based on.

    `best` is the number of the best episode so far.
    """

    episode: Annotated[int, Shown("episode|number")]
    next: Literal["reflect", "episode"] | None
    stop_reason: StopReason | None
    episode_return: Annotated[float | None, Shown("return|number")] = None
    correct: bool | None = None
    best: int | None = None
    reflections: int = 0


class ReflexionResult(RunRecord):
    """The answer of the best episode, why the run ended, and all that it did.

    `reflections` is the semantic memory, the oldest first. `best` is the number of the episode that
    solved the task, or else has the highest return, the earlier of equals; `status` is `no_answer`
    if it gave none. `judged` is True where only a model says what is right. `hidden_passed` is what
    the hidden test said of the answer, None where there is none, or where it could not be run.
    `verified_by` is `script` where it ran beside the code, which could forge that, and else
    `cases`. While the run goes on, `trajectory` is that of the episode under way.
    """

    environment: str
    task: str
    task_text: str
    strategy: Annotated[Strategy, Shown("strategy", spaced)]
    episode_limit: int
    episodes: tuple[Episode, ...]
    reflections: tuple[Reflection, ...]
    best: int | None
    judged: bool
    answer: str | None
    status: Status
    best_return: float | None
    stop_reason: StopReason | None = None
    decisions: tuple[Decision, ...]
    hidden_passed: bool | None = None
    verified_by: VerifiedBy | None = None
    trajectory: AnyTrajectory | None = None

    @property
    def best_episode(self) -> Episode | None:
        """The episode whose answer is the result."""
        return None if self.best is None else self.episodes[self.best - 1]

    @property
    def episode_count(self) -> int:
        """How many episodes were made."""
        return len(self.episodes)

    @property
    def solved_after(self) -> int | None:
        """The number of the episode that solved the task; None if none did."""
        return self.best if self.status == "solved" else None

    @property
    def doubt(self) -> str:
        """Say why not to build on it; empty for a task that is solved."""
        if self.status != "solved":
            return f"not solved: {self.stop_explanation}"
        if self.hidden_passed is False:
            return "its own tests pass, and the hidden test fails"
        return "only a model judged that it is solved" if self.judged else ""
