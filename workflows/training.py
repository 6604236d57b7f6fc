"""Train a reflector: collect rated reflections, train a reward model, tune on its scores, measure.

Each rollout is a child workflow, and each stage an activity that heartbeats at every step.
"""

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.agents import AgentActivities, AgentPrompt
    from activities.language_model.port import TASK_QUEUE as MODEL_QUEUE
    from activities.training.activity import TrainingActivities
    from activities.training.port import (
        STAGE_PROGRESS,
        TASK_QUEUE,
        BaseModelTask,
        BufferTask,
        ControlTask,
        ResultTask,
        StageTask,
    )
    from activities.turn import ModelTask, TurnActivities
    from mull import telemetry
    from mull.agents.prompts import FIRST_REFLECTION
    from mull.agents.request import Tuning
    from mull.agents.retroformer import RolloutResult
    from mull.agents.training import Planned, RetroformerTrainingRequest, Training, TrainingSoFar
    from mull.agents.training_result import Decision, RetroformerTrainingResult, Stage, StageStep
    from mull.agents.training_sheet import sheet
    from mull.connection import silence
    from mull.request import INVALID, Finish
    from mull.run import add_usage, usage
    from mull.text import spaced, tally_words
    from workflows import base, calls
    from workflows.base import Workflow
    from workflows.calls import Call
    from workflows.children import Children, why_it_failed
    from workflows.retroformer import KEEP_TIMES, RetroformerRolloutWorkflow

# A worker that was lost holds its stage up for so long, or for longer where heartbeats are billed.
SILENCE_SECONDS = 20.0
# A rollout is six to nine events, and another worker replays a history of 10,000 in 3 s. The server
# suggests a new one after 4,096, and ends a run at 51,200.
ROLLOUTS = 500
KEEP_RESULT, STARTS = timedelta(minutes=1), timedelta(seconds=1)
Value = TypeVar("Value")


@workflow.defn(failure_exception_types=[ValidationError])
class RetroformerTrainingWorkflow(Workflow):
    """Train a reward model and a reflector on what an environment says of reflections."""

    request_type = RetroformerTrainingRequest
    make_sheet = staticmethod(sheet)
    span_fields = ("phase", "next")
    _state: Training

    @workflow.init
    def __init__(self, request: RetroformerTrainingRequest) -> None:
        """Begin with nothing collected."""
        info, bound = workflow.info(), request.budget_seconds
        known = {"workflow_id": info.workflow_id, "execution": info.first_execution_run_id}
        carried = dict(request.carried or TrainingSoFar())
        state = Training(request=request, **known, **carried)
        super().__init__(state, None if bound is None else bound - state.seconds)
        self._children = Children()
        # Who ended the collecting, so that the training goes on with what there is.
        self._enough: Finish | None = None

    @workflow.run
    async def run(self, request: RetroformerTrainingRequest) -> RetroformerTrainingResult:
        """Go through the phases until one ends the training, and return what was made."""
        # Before the first local activity: a query that comes during one ends the workflow task, and
        # a replay would then look for the marker in the next one.
        self._holds_out = workflow.patched("held-out tasks")
        self._asks = request.carried is None and workflow.patched("asks the reflector first")
        with self._running(method=request.method) as span:
            await self._find_attributes()
            if request.carried is None:
                await self._begin()
            while not self._state.stopped:
                if self._state.phase == "collecting":
                    await self._collect()
                elif self._state.phase == "measuring":
                    # The tasks are tried again with the tuned reflector.
                    await self._roll_out()
                    if not self._state.stopped and request.control:
                        await self._control()
                    if not self._state.stopped and not self._found_nothing():
                        self._decide(f"the reflector was tuned by {request.method}", "trained")
                else:
                    await self._train(self._state.phase)
            result: RetroformerTrainingResult = self._state.record()
            if result.stages and self._holds_out:
                await self._keep(result)
            self._conclude(span, result)
            return result

    @workflow.query(description="What followed each phase, and why")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return [*self._state.decisions]

    @workflow.signal(name=STAGE_PROGRESS, description="A stage tells how far it came")
    def stage_progress(self, told: StageStep) -> None:
        """Keep how far the stage came."""
        if told.stage == self._state.phase:
            self._state.step, self._state.of = told.step, told.of

    def _finish(self, by: Finish) -> None:
        """End the run; while it collects, let it train on what is there, the first time."""
        if self._state.phase == "collecting" and self._enough is None:
            self._enough = by
        else:
            super()._finish(by)

    async def _begin(self) -> None:
        """Begin to collect, unless the weights that are to be trained can't be found."""
        state, request, tuned = self._state, self._state.request, self._state.request.tuned
        if self._holds_out:
            if request.control and not (tuned or "").endswith(state.workflow_id):
                said = f"control: name the tuned model by this run's id, as …/{state.workflow_id}"
                raise calls.failure(INVALID, said)
            state.hold_out()
            if tuned is not None:
                # Otherwise a name that is not allowed is refused only after all training.
                named = ModelTask(model=tuned, think_level="off")
                described = TurnActivities.describe_model, named, "the tuned model's name"
                await self._call(Call(*described, KEEP_TIMES(), MODEL_QUEUE))
                if state.stopped:
                    return
        state.begin("collecting")
        task = BaseModelTask(model=request.base_model)
        asked = TrainingActivities.find_base_model, task, "find the base model"
        await self._call(Call(*asked, KEEP_TIMES(), TASK_QUEUE))
        if self._asks and not state.stopped:
            await self._ask_reflector()

    async def _ask_reflector(self) -> None:
        """Ask the reflector once, as rollouts will: who serves it knows alone whether it is there.

        Raises ApplicationError if it can't be asked.
        """
        request = self._state.request
        known = {"model": request.reflector, "temperature": request.reflector_temperature}
        task = AgentPrompt.of(request, prompt=FIRST_REFLECTION, episode=0, **known)
        limit = request.max_output_tokens
        times = calls.call_times(request.call_timeout_seconds, request.max_attempts, limit)
        asked = AgentActivities.reflect_on_episode, task, "ask the reflector"
        if reply := await self._call(Call(*asked, times, MODEL_QUEUE)):
            spent = [] if reply.spending is None else [reply.spending]
            self._state.pay(usage({"revising": spent}, reply.attempts - len(spent), 0))

    async def _collect(self) -> None:
        """Rate reflections by rollouts, and put them together as the replay buffer."""
        state = self._state
        await self._roll_out()
        if state.stopped:
            return
        if state.collected.failed and state.collected.failed == state.collected.made:
            why = next(iter(state.errors), "")
            raise calls.failure("RolloutsFailed", f"no rollout came to an end: {why}")
        task = BufferTask(run=state.workflow_id, execution=state.execution, pairing=state.pairing)
        asked = TrainingActivities.assemble_buffer, task, "the replay buffer"
        kept = await self._call(Call(*asked, KEEP_TIMES(), TASK_QUEUE))
        if kept is None:
            return
        state.buffer, state.counts = kept.path, kept.counts
        said = state.no_signal or f"{tally_words(kept.counts.pairs, 'pair')} of reflections rated"
        ended, self._enough = self._enough, None
        author = (ended.author or calls.SOMEBODY) if ended else None
        said += f"; collecting was ended by {author}" if author else ""
        self._decide(said, "no_signal" if state.no_signal else None, author)

    async def _train(self, stage: Stage) -> None:
        """Train a model; an attempt after a lost worker goes on where it can."""
        state, request = self._state, self._state.request
        task = StageTask(
            **{name: getattr(request, name) for name in Tuning.model_fields},
            run=state.workflow_id,
            stage=stage,
            pairing=state.pairing,
            model=request.base_model,
            temperature=request.reflector_temperature,
        )
        words = f"train the {spaced(stage)}"
        times = {
            **calls.work_times(request.stage_timeout_seconds, request.max_attempts),
            "heartbeat_timeout": timedelta(seconds=max(SILENCE_SECONDS, silence())),
        }
        with base.span(telemetry.SPAN_TRAINING.format(stage=stage), "CHAIN", {}, words) as span:
            asked = TrainingActivities.train_stage, task, words
            trained = await self._call(Call(*asked, times, TASK_QUEUE))
            if trained is None:
                return
            span.set_attribute("mull.steps", trained.steps)
            span.set_attribute("mull.examples", trained.examples)
            state.stages = {**state.stages, stage: trained}
            for warning in trained.warnings:
                state.warn(warning)
        telemetry.STAGES.record(workflow.metric_meter(), trained.seconds, stage=stage)
        if self._found_nothing():
            return
        took = f"{tally_words(trained.steps, 'step')} in {trained.seconds:.0f} s"
        if stage == "reflector" and request.tuned is None:
            self._decide(f"the reflector was tuned by {request.method}: {took}", "trained")
        else:
            self._decide(took)

    def _found_nothing(self) -> bool:
        """End the run if what was trained is no better than chance."""
        if said := self._state.nothing_learned:
            self._decide(said, "no_signal")
        return bool(said)

    async def _roll_out(self) -> None:
        """Make every rollout, a bounded number at once, while the budget has room."""
        state, children = self._state, self._children

        def may_go_on() -> bool:
            flying = len(children.in_flight)
            room = flying < state.request.concurrency and state.has_room(flying)
            return bool(self._enough) or not flying or room

        async def make_all() -> None:
            made = list[asyncio.Task[None]]()
            try:
                for planned in state.planned():
                    await workflow.wait_condition(may_go_on)
                    if state.hopeless:
                        state.warn("no more rollouts were made: all so far have failed")
                        break
                    full = children.is_full(ROLLOUTS) or not state.has_room(len(children.in_flight))
                    if self._enough or full:
                        break
                    made.append(children.begin(planned, self._make(planned)))
                await workflow.wait_condition(lambda: bool(self._enough) or not children.in_flight)
                if self._enough:
                    # The server does not cancel a rollout that has not quite started.
                    await workflow.sleep(STARTS)
                else:
                    await asyncio.gather(*made)
            finally:
                await children.cancel()
                await asyncio.gather(*made, return_exceptions=True)

        if not await self._until([making := asyncio.create_task(make_all())]):
            return
        await making
        if state.step < state.of and not (self._enough or state.hopeless) and state.has_room(0):
            took = workflow.now() - workflow.info().start_time
            workflow.continue_as_new(state.going_on(took.total_seconds()))

    async def _make(self, planned: Planned) -> None:
        """Make a rollout to its end, whatever that is."""
        state = self._state
        try:
            ended: RolloutResult = await workflow.execute_child_workflow(
                RetroformerRolloutWorkflow.run,
                state.rollout(planned),
                id=state.rollout_id(planned),
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                static_summary=f"rollout {planned.rollout} of a task",
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            state.failed(planned, why_it_failed(error))
        else:
            state.ended(planned, ended)

    async def _call(self, call: Call[Value]) -> Value | None:
        """Call an activity; None if the run ended instead.

        Raises ApplicationError where it failed for good.
        """
        waits = workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
        started = call._replace(times={**call.times, "cancellation_type": waits}).start()
        if not await self._until([started]):
            return None
        found = calls.outcome(started)
        if isinstance(found, ActivityError):
            raise calls.failure("TrainingFailed", f"{call.summary}: {calls.explain(found)}")
        return found

    async def _control(self) -> None:
        """Train once more, on shuffled labels, in a run of its own: it shows what chance gains."""
        state = self._state
        run = f"{state.workflow_id}/control"
        task = ControlTask(run=state.workflow_id, control=run, seed=state.request.seed)
        asked = TrainingActivities.shuffle_labels, task, "shuffle the labels"
        await self._call(Call(*asked, KEEP_TIMES(), TASK_QUEUE))
        if state.stopped:
            return
        child = workflow.execute_child_workflow(
            RetroformerTrainingWorkflow.run,
            state.controlled(run),
            id=run,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            static_summary="a training on shuffled labels",
        )
        if not await self._until([training := asyncio.ensure_future(child)]):
            return
        try:
            ended = await training
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            state.warn(f"the training on shuffled labels failed: {why_it_failed(error)}")
        else:
            state.control, state.usage = ended.after, add_usage(state.usage, ended.usage)
            if ended.after is None:
                state.warn(f"on shuffled labels it ended before: {ended.stop_explanation}")

    async def _keep(self, result: RetroformerTrainingResult) -> None:
        """Keep the result beside what was trained; if that fails, the run still returns it."""
        task = ResultTask(run=self._state.workflow_id, result=result)
        # The run waits for it, even if no worker that trains is left.
        times = KEEP_TIMES() | {"schedule_to_close_timeout": KEEP_RESULT}
        call = Call(TrainingActivities.keep_result, task, "keep the result", times, TASK_QUEUE)
        try:
            await call.start()
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("the result was not kept: %s", calls.explain(error))

    async def _until(self, started: list[Any]) -> bool:
        """Wait for calls; False if a person or the deadline ended the run, and so the calls."""
        try:
            await calls.settle(started, self._people)
        finally:
            # No stage may outlive the run: it writes where a next run of this id does.
            await asyncio.gather(*started, return_exceptions=True)
        if not self._people.over:
            return True
        stop_reason, said, author = self._people.why_over(self._state.request.budget_seconds)
        self._decide(said, stop_reason, author)
        return False

    def _decide(
        self, reason: str, stop_reason: str | None = None, author: str | None = None
    ) -> None:
        self._span_decision(self._state.decide(reason, workflow.now(), stop_reason, author))

    def _conclude(self, span: Span, result: RetroformerTrainingResult) -> None:
        """Record the outcome everywhere but in the result."""
        shares = {
            "share_good_before": result.before.share_good,
            "share_good_after": result.after.share_good if result.after else None,
        }
        memo = {**shares, "answer": result.tuned_reflector}
        spent = base.spending(result.usage, result.base_model)
        self._record_end(span, result, memo, *spent)
        span.set_attributes(base.known({f"mull.{name}": share for name, share in shares.items()}))

    def _under_way(self) -> dict[str, Any]:
        return {"in_flight": len(self._children.in_flight)}
