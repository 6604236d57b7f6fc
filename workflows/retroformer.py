"""Retroformer: Reflexion that chooses between reflections by a reward model, and its rollouts.

A rollout is a helper of the training: it tries a task once, and two reflections on its failure.
"""

import asyncio
from functools import partial
from typing import Generic, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.agents import AgentActivities
    from activities.critique import Written
    from activities.training.activity import ScoringActivities, TrainingActivities
    from activities.training.port import TASK_QUEUE, PairTask, ScoreTask
    from mull import telemetry
    from mull.agents.result import ReflexionResult
    from mull.agents.retroformer import (
        Retroformer,
        RetroformerRequest,
        Rollout,
        RolloutRequest,
        RolloutResult,
        Sampled,
    )
    from workflows import base
    from workflows.calls import Call, Lost, explain, work_times
    from workflows.reflexion import AgentWorkflow

# A reward model that has to be loaded first takes as long as reading its file does.
SCORE_TIMES, KEEP_TIMES = partial(work_times, 120, 5), partial(work_times, 10, 30)
SampledT = TypeVar("SampledT", bound=Sampled)


class SampledWorkflow(AgentWorkflow[SampledT], Generic[SampledT]):
    """A run that samples several reflections on a failure, side by side."""

    async def _sample(self) -> list[str]:
        """Ask for reflections on the last episode; none if there is no room, or no reply at all."""
        state, number = self._state, len(self._state.episodes)
        prompt = state.begin_choice()
        if not self._has_room("revising"):
            return []
        self._step = f"episode {number}: reflect"
        task = self._prompt(prompt, model=state.request.reflector)
        drawn = {"temperature": state.request.reflection_temperature}
        seeds = [{"seed": state.sample_seed(sample)} for sample in range(state.fitting_tries)]
        tasks = [task.model_copy(update=drawn | seed) for seed in seeds]
        asked = Call(AgentActivities.reflect_on_episode, task, self._step, self._times)
        replies = await asyncio.gather(
            *(self._calls.text("revising", asked._replace(task=task)) for task in tasks)
        )
        if None in replies:
            self._cut_short()
            return []
        for lost in replies:
            if isinstance(lost, Lost):
                state.warn(f"a reflection on episode {number} is lost: {lost}")
        said = [(reply.text or "").strip() for reply in replies if isinstance(reply, Written)]
        return [text for text in said if text]


@workflow.defn(failure_exception_types=[ValidationError])
class RetroformerWorkflow(SampledWorkflow[Retroformer]):
    """Try a task in episodes; keep the best of several reflections on each that failed."""

    request_type = RetroformerRequest

    @workflow.init
    def __init__(self, request: RetroformerRequest) -> None:
        """Begin with empty memories."""
        super().__init__(Retroformer(request, workflow_id=workflow.info().workflow_id))

    @workflow.run
    async def run(self, _: RetroformerRequest) -> ReflexionResult:
        """Solve, evaluate and reflect until a decision ends the run, and return the result."""
        return await self._act()

    async def _reflect(self) -> None:
        """Sample reflections on the failure, score them, and remember the best."""
        state, number = self._state, len(self._state.episodes)
        known: dict[str, base.Attribute] = {"mull.episode": number}
        with base.span(telemetry.SPAN_REFLECTION, "CHAIN", known) as span:
            texts = await self._sample()
            if not texts:
                return
            self._step = f"episode {number}: score the reflections"
            task = ScoreTask(
                reward_model=state.request.reward_model,
                prompt=state.short_term.last_reflector_prompt,
                reflections=tuple(texts),
            )
            asked = ScoringActivities.score_reflections, task, self._step
            found = await self._calls.make(Call(*asked, SCORE_TIMES(), TASK_QUEUE))
            if isinstance(found, ActivityError):
                said = f"the reward model could not be asked: {explain(found)}"
                self._stop("evaluation_failed", said.removesuffix("."))
            elif found is None:
                self._cut_short()
            else:
                reflection = state.choose(texts, found.scores)
                best = max((one for one in found.scores if one is not None), default=None)
                span.set_attributes(
                    base.known({"mull.reflections": len(texts), "mull.score": best})
                )
                if reflection is not None:
                    await self._remember(reflection)


@workflow.defn(failure_exception_types=[ValidationError])
class RetroformerRolloutWorkflow(SampledWorkflow[Rollout]):
    """Try a task, and try two reflections on its failure, each in an episode of its own."""

    request_type = RolloutRequest

    @workflow.init
    def __init__(self, request: RolloutRequest) -> None:
        """Begin with empty memories."""
        super().__init__(Rollout(request, workflow_id=workflow.info().workflow_id))

    @workflow.run
    async def run(self, _: RolloutRequest) -> RolloutResult:
        """Make one episode and, if it failed, rate two reflections on it."""
        await self._act()
        return self._state.rollout_result()

    async def _reflect(self) -> None:
        """Sample two reflections, try each in a next episode, and keep what they gained."""
        state = self._state
        with base.span(telemetry.SPAN_REFLECTION, "CHAIN", {"mull.episode": 1}):
            texts = await self._sample()
        if state.stopped:
            return
        if len(texts) < state.tries:
            why = state.warnings[-1] if state.warnings else "the others were empty"
            said = f"{len(texts)} of {state.tries} reflections were written: {why}"
            self._stop("generation_failed", said)
            return
        for number, text in enumerate(texts, start=2):
            state.begin_trial(text)
            known: dict[str, base.Attribute] = {"mull.episode": number}
            with base.span(telemetry.SPAN_EPISODE, "AGENT", known, f"episode {number}") as span:
                await self._solve()
                if state.stopped:
                    return
                self._record(span, "ended")
            state.end_trial(text)
        await self._keep()
        if not state.stopped:
            self._stop("episode_limit", "two reflections were tried")

    async def _verify(self) -> None:
        """Skip the hidden test: the answers of rollouts are not used."""

    async def _keep(self) -> None:
        """Add the pair to the replay buffer of the run that trains."""
        state, request = self._state, self._state.request
        if not request.kept:
            return
        by_script = any(one.verified_by == "script" for one in state.episodes)
        if by_script and not request.keep_script_verdicts:
            why = "tests ran beside the code, which could forge them"
            state.warn(f"a pair was left out: {why}; with keep_script_verdicts it is kept")
            return
        reflector = request.reflector or request.model
        pair = state.pair(workflow.info().run_id, reflector)
        task = PairTask(run=request.training, execution=request.execution, pair=pair)
        asked = TrainingActivities.keep_pair, task, "keep the pair"
        kept = await self._calls.make(Call(*asked, KEEP_TIMES(), TASK_QUEUE))
        if isinstance(kept, ActivityError):
            self._stop("environment_failed", f"the pair could not be kept: {explain(kept)}")
