"""Reflexion: an agent tries a task, reflects on its failure, and tries again.

The order of the calls is the source's; what is decided between them is `mull.agents.loop`'s.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.agents import AgentActivities, AgentPrompt
    from activities.critique import Written
    from activities.environments.activity import EpisodeTask, Evaluator, Executor, digest_of
    from activities.environments.port import TaskRef
    from activities.memory import MemoryActivities, MemoryTask, RememberTask
    from mull import telemetry
    from mull.agents.loop import Reflexion
    from mull.agents.memory import Reflection
    from mull.agents.request import ReflexionRequest
    from mull.agents.result import Decision, ReflexionResult
    from mull.agents.sheet import sheet
    from mull.connection import TASK_QUEUE
    from mull.queues import queue_of
    from mull.request import explain as explain_request
    from mull.run import Part
    from workflows import base
    from workflows.base import RunWorkflow
    from workflows.calls import Call, Lost, call_times, explain, failure, lost, work_times

# A solved task does not wait for ever for a worker that runs its hidden test.
HIDDEN_TEST = timedelta(minutes=10)
# The server ends a run at 50 MB. Well before that another worker would need longer to read and
# replay it than a task may take: 12 MB take it 2 to 4 s.
HISTORY_BYTES = 20_000_000
MEMORY_TIMES = 10, 30
AgentT = TypeVar("AgentT", bound=Reflexion)
Value = TypeVar("Value")
# Their explanations quote what an environment said.
QUOTING = frozenset({"environment_failed"})


class AgentWorkflow(RunWorkflow[AgentT], Generic[AgentT]):
    """An agent that tries a task in episodes, until one succeeds or a rule stops it.

    The evaluator is the environment, unless the request names a judge.
    """

    make_sheet = staticmethod(sheet)
    span_fields = ("episode", "next", "correct", "best", "reflections")

    def __init__(self, state: AgentT) -> None:
        """Begin with empty memories."""
        super().__init__(state)
        request = state.request
        self._task = TaskRef(
            environment=request.environment,
            task=request.task,
            seed=request.environment_seed,
            tasks=request.tasks,
            docs=request.docs,
        )
        self._queue = queue_of(request.environment)
        limit = request.max_output_tokens
        self._times = call_times(request.call_timeout_seconds, request.max_attempts, limit)
        self._step_times = work_times(request.step_timeout_seconds, request.max_attempts)

    async def _act(self) -> ReflexionResult:
        """Solve, evaluate and reflect until a decision ends the run, and return the result."""
        with self._running() as span:
            await self._find_attributes()
            hidden = await self._initialise()
            while not self._state.stopped:
                await self._try_once()
            if hidden:
                await self._verify()
            result: ReflexionResult = self._state.result()
            known = {"answer": (result.answer or "")[:400], "return": result.best_return}
            self._conclude(span, result, known)
            return result

    async def _initialise(self) -> bool:
        """Fill the memories by what the environment has, and the runs before this one.

        Return whether there is a hidden test. Raises ApplicationError if there is no such task.
        """
        state, request = self._state, self._state.request
        call = self._acting(Executor.begin_task, "the task")
        setting = await self._calls.make(call)
        if isinstance(setting, ActivityError):
            raise lost(setting).failure
        if setting is None:
            self._cut_short()
            return False
        try:
            state.initialise(**setting.model_dump(exclude={"verifies"}))
        except ValidationError as error:
            said = f"the environment's setting is not valid: {explain_request(error)}"
            raise failure("TaskError", said) from None
        if request.memory is not None:
            task = MemoryTask(name=request.memory, scope=request.scope_key)
            asked = MemoryActivities.recall_reflections, task, "reflections of earlier runs"
            held = await self._calls.make(Call(*asked, work_times(*MEMORY_TIMES), TASK_QUEUE))
            if isinstance(held, ActivityError):
                state.warn(f"the memory {request.memory} could not be read: {explain(held)}")
            elif held is not None:
                state.semantic = held
        return setting.verifies

    async def _try_once(self) -> None:
        """Make one episode, and reflect on it if it failed."""
        self._state.begin_episode()
        number = self._state.number
        with base.span(
            telemetry.SPAN_EPISODE, "AGENT", {"mull.episode": number}, f"episode {number}"
        ) as span:
            await self._solve()
            if not self._state.stopped:
                self._decide()
            if (last := self._state.last) is not None and last.next == "reflect":
                await self._reflect()
                if not self._state.stopped:
                    self._decide()
            if self._state.number == number and self._state.episodes:
                self._record(span, "ended")

    async def _solve(self) -> None:
        """Take steps until the episode ends, and evaluate it."""
        while self._state.ended is None and not self._state.stopped:
            await self._take_step()
        if not self._state.stopped:
            await self._evaluate()

    def _record(self, span: Span, *more: str) -> None:
        """Write into a span what the last episode is worth."""
        done = self._state.episodes[-1]
        worth = base.known({"mull.return": done.episode_return})
        span.set_attributes({**worth, **base.numbers(done, ("correct", *more))})

    def _decide(self) -> None:
        """Decide what comes next, and record it."""
        self._span_decision(self._state.decide(workflow.now()))
        if not self._state.stopped:
            self._write_progress()

    async def _take_step(self) -> None:
        """Plan an action, and execute it unless it is the answer."""
        state = self._state
        known: dict[str, base.Attribute] = {
            "mull.episode": state.number,
            "mull.step": len(state.actions) + 1,
        }
        with base.span(telemetry.SPAN_STEP, "CHAIN", known):
            if not await self._plan() or not state.executes():
                return
            self._step = f"episode {state.number}, step {len(state.actions)}: execute"
            action = state.actions[-1].content
            with base.span(telemetry.SPAN_EXECUTE, "TOOL", known):
                call = self._acting(Executor.execute_action, self._step, action=action)
                result = await self._calls.make(call)
            if isinstance(result, ActivityError):
                self._stop("environment_failed", f"the action failed: {explain(result)}")
            elif result is None:
                self._cut_short()
            else:
                state.observe(result.observation, result.reward, result.answer, done=result.done)

    async def _plan(self) -> bool:
        """Ask for the next action; False if the run ended instead."""
        state = self._state
        if not self._has_room("generating"):
            return False
        if workflow.info().get_current_history_size() >= HISTORY_BYTES:
            self._stop("budget", f"the history of the run has {HISTORY_BYTES:,} bytes")
            return False
        step = len(state.actions) + 1
        self._step = f"episode {state.number}, step {step}: plan"
        with base.span(telemetry.SPAN_PLAN, "CHAIN", {"mull.step": step}):
            reply = await self._ask("generating", state.planner_prompt, step)
        if isinstance(reply, Written):
            state.replied_by = reply.model or state.replied_by
            state.planned(reply.text or "")
            return True
        if isinstance(reply, Lost):
            if not state.episodes and not state.actions:
                raise reply.failure
            self._stop("generation_failed", f"no action could be planned: {reply}")
        return False

    async def _evaluate(self) -> None:
        """Find out what the episode is worth, by the environment or the request's judge."""
        state, request = self._state, self._state.request
        self._step = f"episode {state.number}: evaluate"
        by = request.judge or request.environment
        known: dict[str, base.Attribute] = {"mull.episode": state.number, "mull.evaluator": by}
        with base.span(telemetry.SPAN_EVALUATE, "EVALUATOR", known) as span:
            if request.judge is not None:
                await self._judge(request.judge)
            else:
                call = self._acting(Evaluator.evaluate_episode, self._step, answer=state.answer)
                found = await self._calls.make(call._replace(late=True))
                if isinstance(found, ActivityError):
                    said = f"the episode could not be evaluated: {explain(found)}"
                    self._stop("environment_failed", said)
                elif found is None:
                    self._cut_short()
                else:
                    state.evaluated(**dict(found))
            if not state.stopped:
                self._record(span)

    async def _judge(self, model: str) -> None:
        """Ask a model whether the answer is right, once more if its reply can't be read."""
        state = self._state
        task = self._prompt(state.judge_prompt, model=model, temperature=0.0)
        call = Call(AgentActivities.judge_episode, task, self._step, self._times)
        replies = await self._calls.ask_twice(
            "evaluating", call, lambda: self._has_room("evaluating")
        )
        if state.stopped:
            return
        reply = replies[-1]
        if reply is None:
            self._cut_short()
        elif isinstance(reply, ActivityError) or reply.correct is None:
            why = explain(reply) if isinstance(reply, ActivityError) else reply.error or ""
            self._stop("evaluation_failed", f"the judge's verdict can't be had: {why}")
        else:
            state.evaluated(float(reply.correct), reply.reasoning, {}, correct=reply.correct)

    async def _reflect(self) -> None:
        """Ask why the episode failed, and remember what it says."""
        state, request = self._state, self._state.request
        if not self._has_room("revising"):
            return
        number = len(state.episodes)
        self._step = f"episode {number}: reflect"
        with base.span(telemetry.SPAN_REFLECTION, "CHAIN", {"mull.episode": number}):
            prompt = state.reflector_prompt
            reply = await self._ask("revising", prompt, model=request.reflector)
            if isinstance(reply, Lost):
                state.warn(f"episode {number} was not reflected on: {reply}")
            elif reply is not None:
                reflection = state.reflected(reply.text or "")
                if reflection is not None:
                    await self._remember(reflection)

    async def _remember(self, reflection: Reflection) -> None:
        """Add a reflection to semantic memory, and to the one that runs share."""
        state, request = self._state, self._state.request
        if request.memory is not None:
            task = RememberTask(name=request.memory, scope=request.scope_key, reflection=reflection)
            asked = MemoryActivities.remember_reflection, task, "remember the reflection"
            held = await self._calls.make(Call(*asked, work_times(*MEMORY_TIMES), TASK_QUEUE))
            if held is not None and not isinstance(held, ActivityError):
                # An earlier run with this id may have added it, and the memory have dropped it.
                own = held.holds(reflection.text)
                state.semantic = held if own else held.remember(reflection)
                return
            why = "it was cut short" if held is None else explain(held)
            state.warn(f"a reflection was not added to the memory {request.memory}: {why}")
        state.semantic = state.semantic.remember(reflection)

    async def _verify(self) -> None:
        """Run the hidden test on the best answer, once, at the end; no episode sees its outcome."""
        state = self._state
        best = state.best
        if best is None or best.answer is None or self._people.finish is not None:
            return
        self._step = "the hidden test"
        call = self._acting(Evaluator.verify_answer, "the hidden test", answer=best.answer)
        times = {**self._step_times, "schedule_to_close_timeout": HIDDEN_TEST}
        found = await self._calls.make(call._replace(times=times, late=True))
        if isinstance(found, ActivityError):
            state.warn(f"the hidden test could not be run: {explain(found)}")
        elif found is not None:
            state.hidden_passed, state.verified_by = found.passed, found.verified_by

    async def _ask(
        self, part: Part, prompt: str, step: int = 0, model: str | None = None
    ) -> Written | Lost | None:
        """Ask for an action or a reflection; None, and the run has ended, if it was cut short."""
        reflects = part == "revising"
        task = self._prompt(prompt, model, step=step)
        activity = AgentActivities.reflect_on_episode if reflects else AgentActivities.plan_action
        reply = await self._calls.text(part, Call(activity, task, self._step, self._times))
        if reply is None:
            self._cut_short()
        return reply

    def _prompt(self, prompt: str, model: str | None = None, **more: Any) -> AgentPrompt:
        state, model = self._state, model or self._state.request.model
        known = {"prompt": prompt, "model": model, "seed": state.seed, "episode": state.number}
        return AgentPrompt.of(state.request, **known | more)

    def _acting(
        self, activity: Callable[..., Awaitable[Value]], summary: str, **more: Any
    ) -> Call[Value]:
        """Build a call of the environment in the episode under way."""
        info, state = workflow.info(), self._state
        task = EpisodeTask(
            task=self._task,
            key=f"{info.workflow_id}/{info.run_id}/{state.number}",
            actions=state.executed,
            seen=digest_of(state.observed) if state.observed else "",
            timeout_seconds=state.request.step_timeout_seconds,
            **more,
        )
        return Call(activity, task, summary, self._step_times, self._queue)

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
        return base.known({"mull.return": decision.episode_return}) | super()._numbers(decision)

    def _quotes(self, decision: Decision) -> bool:
        return decision.stop_reason in QUOTING

    def _updates(self) -> list[base.Update]:
        episodes = telemetry.REVISIONS.value_set(len(self._state.episodes))
        return [episodes, *super()._updates()]


@workflow.defn(failure_exception_types=[ValidationError])
class ReflexionWorkflow(AgentWorkflow[Reflexion]):
    """Try a task in episodes, and reflect on each that failed, until one succeeds."""

    request_type = ReflexionRequest

    @workflow.init
    def __init__(self, request: ReflexionRequest) -> None:
        """Begin with empty memories."""
        super().__init__(Reflexion(request, workflow_id=workflow.info().workflow_id))

    @workflow.run
    async def run(self, _: ReflexionRequest) -> ReflexionResult:
        """Solve, evaluate and reflect until a decision ends the run, and return the result."""
        return await self._act()
