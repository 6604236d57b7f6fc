"""The state of a Retroformer run, and of a rollout, which rates reflections for its training.

Both are Reflexion with a reward for each step. A run chooses the best of several reflections, by
their scores; a rollout tries two reflections on the same failed episode.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mull.agents.loop import Reflexion
from mull.agents.memory import Reflection, RetroformerMemory, Reward, SemanticMemory, TrainItem
from mull.agents.rating import RatedPair
from mull.agents.request import ReflexionRequest, episode_option
from mull.multipath.request import Folder
from mull.option import option
from mull.request import Record, Words, model_name
from mull.run import Usage, above, room

MOST_TRIES = 16
TRIED = 2
reflection_option = partial(option, "Reflections")


class SampledRequest(ReflexionRequest):
    """A task whose reflections are sampled, with a seed each."""

    strategy: Literal["reflexion", "last_episode_and_reflexion"] = episode_option(
        "reflexion", "What the next episode is told: reflections, or these and it."
    )
    reflection_temperature: float = reflection_option(
        0.9, "The temperature of sampled reflections.", gt=0, le=2, allow_inf_nan=False
    )


class RetroformerRequest(SampledRequest):
    """A task of an environment, and the reward model that chooses between reflections on it."""

    reward_model: Annotated[Folder, AfterValidator(model_name)] = reflection_option(
        ..., "The reward model: a folder in MULL_ARTIFACTS, as `mull train` names it."
    )
    reflection_tries: int = reflection_option(
        3, "How many reflections the best is chosen from.", ge=1, le=MOST_TRIES
    )


class RolloutRequest(SampledRequest):
    """A task to try for a training run; the reflections on its failure are rated.

    `training` is that run's id and `execution` its first execution's, `rollout` counts from 1. With
    `kept` the pair goes into its replay buffer, but only with `keep_script_verdicts` if a test that
    ran beside the code had a part in its rewards. Nothing learns from it if it is `held_out`.
    """

    training: Words
    execution: Words
    rollout: int = Field(ge=1)
    kept: bool = True
    held_out: bool = False
    keep_script_verdicts: bool = False


@dataclass
class Sampled(Reflexion):
    """An agent with a reward for each step, which samples several reflections on a failure."""

    request: SampledRequest
    short_term: RetroformerMemory = field(default_factory=RetroformerMemory)

    @property
    def tries(self) -> int:
        """How many reflections are sampled on a failure."""
        return TRIED

    @property
    def fitting_tries(self) -> int:
        """How many of them the budget has room for."""
        alike, expected = self.spent["revising"], self._expected("revising")
        return room(self.budget, self.every_spending, self.tries, alike, expected=expected).calls

    def sample_seed(self, sample: int) -> int:
        """Return the seed of one of the reflections on the last episode, counted from 0."""
        return (self.request.seed or 0) + (len(self.episodes) - 1) * self.tries + sample

    def observe(self, said: str, reward: float, answer: str | None, *, done: bool) -> None:
        """Append what the environment answered, and then what that step is worth."""
        super().observe(said, reward, answer, done=done)
        earned = Reward(content=reward, step=len(self.actions))
        self.short_term = self.short_term.add_to_trajectory(earned)

    def begin_choice(self) -> str:
        """Return the prompt of the reflections on the last episode, and keep it."""
        self.short_term = self.short_term.begin_choice(self.reflector_prompt)
        return self.short_term.last_reflector_prompt


@dataclass
class Retroformer(Sampled):
    """An agent that chooses between its reflections by a reward model."""

    request: RetroformerRequest

    @property
    def tries(self) -> int:
        """How many reflections are sampled on a failure."""
        return self.request.reflection_tries

    def choose(self, texts: Sequence[str], scores: Sequence[float | None]) -> Reflection | None:
        """Keep the best reflection: a strictly higher score replaces the best so far.

        A score that is not a number loses. Return it, or None if there is no new best.
        """
        highest = float("-inf")
        for text, score in zip(texts, scores, strict=True):
            if score is not None and above(score, highest):
                highest = score
                self.short_term = self.short_term.set_best_reflect(text)
        self.episodes[-1] = self.episodes[-1].model_copy(update={"scores": tuple(scores)})
        if not self.short_term.best_reflect:
            self.warn(f"no reflection on episode {len(self.episodes)} has a score")
            return None
        return self.reflected(self.short_term.best_reflect)


class RolloutResult(Record):
    """What a rollout found: how the first episode ended, and what two reflections on it gained.

    `gains` is empty where the first episode succeeded, or was cut short. `helped` says of each
    reflection whether the episode that read it succeeded.
    """

    task: str
    rollout: int
    solved: bool
    gains: tuple[float, ...] = ()
    helped: tuple[bool, ...] = ()
    usage: Usage
    model: str | None = None
    stop_reason: str
    stop_explanation: str
    warnings: tuple[str, ...] = ()


@dataclass
class Rollout(Sampled):
    """An agent that tries each of two reflections on its first failure."""

    request: RolloutRequest

    @property
    def seed(self) -> int:
        """The planner's seed: the same in both trials, lest a part of a gain be luck."""
        return (self.request.seed or 0) + min(self.number, TRIED) - 1

    def begin_trial(self, reflection: str) -> None:
        """Begin an episode that reads this reflection alone; the source deletes a wrong one."""
        held = Reflection(text=reflection, workflow_id=self.workflow_id, episode=1)
        self.semantic = SemanticMemory().remember(held)
        self.begin_episode()

    def end_trial(self, reflection: str) -> None:
        """Take the reflection out again, and keep what the episode that read it is worth."""
        self.semantic = SemanticMemory()
        tried = TrainItem(
            prompt=self.short_term.last_reflector_prompt,
            reflection=reflection,
            rewards=self.short_term.accumulated_rewards,
        )
        self.short_term = self.short_term.add_train_data(tried)

    def pair(self, run_id: str, reflector: str | None) -> RatedPair:
        """Return both reflections with what they gained, and where they come from."""
        request = self.request
        return RatedPair(
            environment=request.environment,
            task=request.task,
            environment_seed=request.environment_seed,
            rollout=request.rollout,
            first_return=self.episodes[0].episode_return or 0.0,
            tried=self.short_term.train_data,
            planner=self.model,
            reflector=reflector,
            temperature=request.reflection_temperature,
            seeds=tuple((request.seed or 0) + sample for sample in range(TRIED)),
            workflow_id=self.workflow_id,
            run_id=run_id,
            held_out=request.held_out,
        )

    def rollout_result(self) -> RolloutResult:
        """Return what the run that trains needs to know; the texts are in its replay buffer."""
        last, first = self.decisions[-1], self.episodes[0] if self.episodes else None
        tried = self.short_term.train_data
        whole = len(tried) == TRIED
        return RolloutResult(
            task=self.request.task,
            rollout=self.request.rollout,
            solved=first is not None and bool(first.correct),
            usage=self.used,
            model=self.model,
            stop_reason=last.stop_reason or "",
            stop_explanation=last.reason,
            warnings=tuple(self.warnings),
            gains=self.pair("", None).gains if whole else (),
            helped=tuple(bool(one.correct) for one in self.episodes[1:]) if whole else (),
        )
