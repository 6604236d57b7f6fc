"""The rounds of a run: a draft, its evaluation, a decision, a revision, a person's review."""

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.critique import loop
    from reflection.critique.evaluation import Feedback
    from reflection.critique.loop import Reflection, should_reflect
    from reflection.critique.request import ReflectOnResultRequest
    from reflection.critique.result import Draft, Progress, Step, StopReason
    from reflection.run import Finish, Part, Review
    from workflows.calls import Calls, Patience
    from workflows.critique.judging import Judges
    from workflows.critique.preparing import prepare
    from workflows.critique.view import View, evaluated, evaluation_span, reflection_span
    from workflows.critique.writing import Writer
    from workflows.reviewing import Reviewing

SOMEBODY = "a person"


class Rounds:
    """What a run does, step by step; every step ends with a decision in `state`."""

    def __init__(self, request: ReflectOnResultRequest) -> None:
        self._request = request
        self.state = Reflection(request)
        self.finish: Finish | None = None
        self.reviewing = Reviewing(lambda: self.finish is not None)
        self._calls = Calls(
            Patience(lambda: self.finish is not None, self._seconds_left), self.state.lose
        )
        self._writer = Writer(self.state, self._calls)
        self._judges = Judges(self.state, self._calls)
        self._step: Step = "starting"
        self.view = View(self.state, self.standing)

    def standing(self) -> Progress:
        """Say where the run stands."""
        return loop.progress(self.state, self._step, self._calls.in_flight, self.reviewing.until)

    async def begin(self) -> None:
        """Get the first draft and judge it, unless it shall not be."""
        await self.view.prepare()
        await prepare(self.state)
        gate = should_reflect(self._request, self.state.complexity)
        self._writer.take_given()
        if self._ended_from_outside():
            return
        self._at("writing")
        if not await self._writer.draft():
            self._cut_short()
        elif gate.stop_reason is not None:
            self._stop(gate.stop_reason, gate.reason)
        else:
            await self._evaluate()

    async def reflect(self) -> None:
        """Revise the newest draft by its feedback, until a decision says otherwise."""
        while not self._over:
            newest = self.state.drafts[-1]
            await self._revise(newest, self.state.advice(newest), None)

    async def review(self) -> None:
        """Wait for a person, and do what they say."""
        timeout = self._request.review_timeout_seconds
        self.reviewing.begin(timeout)
        self._at("waiting_for_review")
        try:
            given = await self.reviewing.wait()
        except TimeoutError:
            self._settle("review_timeout", f"nobody reviewed it within {timeout:g} seconds")
        except asyncio.CancelledError:
            self.view.cancelled()
            raise
        else:
            await self._follow(given)

    def no_more_revisions(self) -> str | None:
        """Say why a person can't have one more revision; None where one can be had."""
        left = self._seconds_left()
        return "the time is up" if left is not None and left <= 0 else loop.no_grant(self.state)

    def _seconds_left(self) -> float | None:
        """The seconds until the deadline; those spent waiting for a person do not count."""
        if self._request.budget_seconds is None:
            return None
        used = workflow.now() - workflow.info().start_time - self.reviewing.waited()
        return self._request.budget_seconds - used.total_seconds()

    @property
    def _over(self) -> bool:
        last = self.state.last
        return last is not None and (last.stop or last.waits_for_review)

    def _at(self, step: Step) -> None:
        self._step = step
        self.view.show()

    def _stop(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self.view.decided(self.state.stop(reason, said, workflow.now(), author))

    def _settle(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self.view.decided(self.state.settle(reason, said, workflow.now(), author))

    def _ended_from_outside(self) -> bool:
        """End the run where a person said so or the time is up."""
        if self._calls.over:
            self._cut_short()
        return self._over

    def _cut_short(self) -> None:
        """End the run after a call that a person's wish or the deadline cut short."""
        if self.finish is not None:
            who = self.finish.author or SOMEBODY
            self._stop("finished_by_person", f"finished by {who}", who)
        else:
            self._stop("deadline", f"the {self._request.budget_seconds:g} seconds are over")

    def _has_room(self, part: Part) -> bool:
        """Tell whether the next call may be made; end the run where it may not."""
        if self._ended_from_outside():
            return False
        full = self.state.no_room(part)
        if full is not None:
            self._stop("budget", full)
        return full is None

    async def _revise(
        self, draft: Draft, feedback: tuple[Feedback, ...], author: str | None
    ) -> None:
        """Ask for a better draft, and judge it."""
        if not self._has_room("revising"):
            return
        with reflection_span(self.state.revisions + 1):
            self._at("revising")
            revised = await self._writer.revise(draft, feedback, author)
            if isinstance(revised, str):
                self._stop("revision_failed", f"the draft could not be revised: {revised}")
            elif revised:
                await self._evaluate()
            else:
                self._cut_short()

    async def _evaluate(self) -> None:
        """Judge the newest draft, and decide."""
        if not self._has_room("evaluating"):
            return
        self._at("evaluating")
        draft = self.state.drafts[-1]
        with evaluation_span(self._request.criteria_name, draft) as span:
            evaluation = await self._judges.evaluate(draft)
            if evaluation is not None:
                evaluated(span, evaluation, self._request.score_threshold)
        if evaluation is None:
            self._cut_short()
            return
        self.state.evaluated(draft.index, evaluation)
        self.view.decided(self.state.decide(workflow.now()))

    async def _follow(self, given: Review | None) -> None:
        said = given or self.finish
        who = (said.author if said else None) or SOMEBODY
        if given is None:
            self._settle("finished_by_person", f"finished by {who}", who)
        elif given.replace is not None:
            loop.replace(self.state, given.replace, who, workflow.now())
            self._settle("replaced_by_person", f"replaced by {who}", who)
        elif given.score is not None:
            loop.score(self.state, given.score, who)
            self._settle("scored_by_person", f"scored {given.score:g} by {who}", who)
        elif given.revise is not None:
            await self._revise_for(given.revise, who)
        else:
            self._settle("accepted_by_person", f"accepted by {who}", who)

    async def _revise_for(self, words: str, who: str) -> None:
        """Make the revision that a person asked for, of the draft that they saw."""
        best = self.state.best
        if best is not None:
            self.view.decided(loop.grant(self.state, words, who, workflow.now()))
            asked = Feedback(advice=words, judge=who)
            await self._revise(best, (asked, *self.state.advice(best)), who)
