"""Retrieve, route, then research or code: each draft is checked and revised."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Self

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.multipath import loop
    from reflection.multipath.loop import Run
    from reflection.multipath.request import MultiPathRequest
    from reflection.multipath.result import Decision, MultiPathResult, Progress, Step, StopReason
    from reflection.multipath.sheet import sheet
    from reflection.multipath.state import Node
    from reflection.run import Finish, Part, Review, fitted
    from workflows import base
    from workflows.calls import Calls
    from workflows.nodes import Ended, Nodes
    from workflows.people import SOMEBODY, People, refusal

WRITES = frozenset({"generate_report", "generate_code"})
# Their explanations quote what a model, a test or a document said.
QUOTING: frozenset[StopReason] = frozenset({"unrouted", "reflection_failed", "test_failed"})
NUMBERS = (
    "after", "next", "mode", "revisions", "critiques", "passed", "total", "stop", "stop_reason",
)  # fmt: skip


@workflow.defn(failure_exception_types=[ValidationError])
class MultiPathWorkflow:
    """Write a report or code until nothing is left to fix, or a bound or a person says stop."""

    def __new__(cls, *inputs: object) -> Self:
        """Reject a start without a valid request, which would fail every workflow task."""
        base.require_request(inputs, MultiPathRequest, "prompt")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: MultiPathRequest) -> None:
        """Begin with S as the source has it: P, and nothing else."""
        self._request = request
        self._state = Run(request)
        self._step: Step = "starting"
        self._people = People(request.budget_seconds)
        self._calls = Calls(self._people, self._state.ledger.lose)
        self._attributes = base.SearchAttributes()
        nodes = self._nodes = Nodes(self._state, self._calls, self._people)
        self._work: dict[Node, Callable[[], Awaitable[Ended | None]]] = {
            "retrieve": nodes.retrieve,
            "route": nodes.route,
            "generate_report": nodes.generate_report,
            "reflect_on_report": nodes.reflect_on_report,
            "generate_code": nodes.generate_code,
            "test_code": nodes.test_code,
        }

    @workflow.run
    async def run(self, _: MultiPathRequest) -> MultiPathResult:
        """Walk from node to node, ask a person where that is wanted, and return the result."""
        with base.run_span({}) as span:
            await self._attributes.find(self._state.warn)
            await self._walk_until_decided()
            while not self._state.stopped:
                await self._wait_for_review()
                await self._walk_until_decided()
            return self._conclude(span)

    @workflow.query(description="Where the run stands: path, sources, drafts, tests, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        in_flight, until = self._calls.in_flight, self._people.until
        return loop.progress(self._state, self._step, in_flight, until)

    @workflow.query(description="Each transition so far, with every number it was based on")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return self._state.decisions

    @workflow.update(description="Accept, revise or replace a result that waits for you")
    def review(self, given: Review) -> None:
        """Take what a person says of the result."""
        self._people.review(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        self._people.refuse_review(given)
        left = self._people.seconds_left()
        if given.revise is not None and left is not None and left <= 0:
            raise refusal("no further revision is possible: the time is up")
        reason = loop.refused(self._state, given)
        if reason is not None:
            raise refusal(reason)

    @workflow.update(description="End the run with the best draft so far")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._people.end(by)

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        self._people.refuse_end(by, stopped=self._state.stopped)

    async def _walk_until_decided(self) -> None:
        """Visit one node after the other, until a decision ends the run or waits."""
        while (node := self._state.next) is not None:
            first_code = node == "generate_code" and not self._state.drafts
            if first_code and not await self._find_tests():
                return
            await self._visit(node)

    async def _visit(self, node: Node) -> None:
        """Do a node's work, and decide."""
        if not self._has_room(self._part(node)):
            return
        self._at(node)
        with self._node_span(node) as leave:
            ended = await self._work[node]()
            leave(ended)
        if ended is None or ended.reason is not None:
            self._state.after = node
        if ended is None:
            self._decided(self._state.decide(workflow.now()))
        else:
            self._end(ended)

    async def _find_tests(self) -> bool:
        """Find or write the tests for the code; False if the run ended meanwhile."""
        self._at("generate_code")
        await self._nodes.find_tests()
        if self._state.suite is not None:
            return True
        if not self._has_room("generating"):
            return False
        with self._node_span("write_tests") as leave:
            ended = await self._nodes.write_tests()
            leave(ended)
        if ended is not None:
            self._end(ended)
        return ended is None

    def _part(self, node: Node) -> Part | None:
        """Name the part of the spending that a node's call belongs to; None: it asks no model."""
        if node in WRITES:
            return self._nodes.part
        asks = node == "reflect_on_report" or (node == "route" and self._request.mode is None)
        return "evaluating" if asks else None

    def _end(self, ended: Ended) -> None:
        if ended.reason is None:
            self._cut_short()
        else:
            self._stop(ended.reason, ended.said)

    async def _wait_for_review(self) -> None:
        """Wait for a person, and do what they say."""
        timeout = self._request.review_timeout_seconds
        self._people.begin_wait(timeout)
        self._at("waiting_for_review")
        try:
            said = await self._people.wait()
        except asyncio.CancelledError:
            self._attributes.write(telemetry.NEEDS_REVIEW.value_set(False))
            raise
        if said is None:
            self._settle("review_timeout", f"nobody reviewed it within {timeout:g} seconds")
        else:
            self._follow(said)

    def _follow(self, said: Review | Finish) -> None:
        """Do what a person said."""
        who = said.author or SOMEBODY
        if isinstance(said, Finish):
            self._settle("finished_by_person", f"finished by {who}", who)
        elif said.replace is not None:
            loop.replace(self._state, said.replace, who, workflow.now())
            self._settle("replaced_by_person", f"replaced by {who}", who)
        elif said.revise is not None:
            self._decided(loop.grant(self._state, said.revise, who, workflow.now()))
        else:
            self._settle("accepted_by_person", f"accepted by {who}", who)

    def _has_room(self, part: Part | None) -> bool:
        """Tell whether the next call may be made; end the run where it may not."""
        if self._people.over:
            self._cut_short()
            return False
        full = None if part is None else self._state.ledger.no_room(part)
        if full is not None:
            self._stop("budget", full)
        return full is None

    def _cut_short(self) -> None:
        """End the run after a call that a person's wish or the deadline cut short."""
        if self._people.finish is not None:
            who = self._people.finish.author or SOMEBODY
            self._stop("finished_by_person", f"finished by {who}", who)
        else:
            seconds = self._request.budget_seconds
            self._stop("deadline", f"the time budget of {seconds:g} seconds is used up")

    def _stop(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self._decided(self._state.stop(reason, said, workflow.now(), author))

    def _settle(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self._decided(self._state.settle(reason, said, workflow.now(), author))

    def _at(self, step: Step) -> None:
        self._step = step
        self._show()

    def _show(self) -> None:
        base.show(sheet(self.progress(), self._state.decisions, self._request))

    def _decided(self, decision: Decision) -> None:
        """Span a decision with its numbers, and show where the run stands."""
        base.decision_span(_numbers(decision))
        self._show()
        if not decision.stop:
            self._attributes.write(*self._updates(decision))

    def _conclude(self, span: Span) -> MultiPathResult:
        """Record the outcome everywhere, and return it."""
        result, last = fitted(loop.result(self._state), "output"), self._state.decisions[-1]
        self._show()
        stopped = telemetry.STOP_REASON.value_set(result.stop_reason)
        self._attributes.write(*self._updates(last), stopped)
        workflow.upsert_memo(
            {
                "stop_reason": result.stop_reason,
                "stop_explanation": result.stop_explanation,
                "mode": result.mode,
                "open": result.open,
                "output": (result.output or "")[:400],
            }
        )
        span.set_attributes(_numbers(last))
        return result

    def _updates(self, decision: Decision) -> list[base.Update]:
        standing = self.progress()
        return [
            telemetry.REVISIONS.value_set(standing.revisions),
            telemetry.NEEDS_REVIEW.value_set(decision.waits_for_review),
            *base.spending(standing.usage, standing.model),
        ]

    @contextmanager
    def _node_span(self, name: str) -> Iterator[Callable[[Ended | None], None]]:
        """Span one node under its own name, in the history's group of its draft.

        What it yields takes why the run ends there, or None, once the node's work is done.
        """
        number = self._state.state.revisions + (name in WRITES)
        group = f"draft {number}" if number else None
        kind = telemetry.NODE_KINDS[name]
        with base.span(name, kind, {"mull.revision": number}, group) as span:
            yield lambda ended: _record_node(span, name, self._state, ended)


def _numbers(decision: Decision) -> dict[str, base.Attribute]:
    """List the numbers of a decision; texts of models and documents only where that is on."""
    repairs = decision.after == "test_code" and decision.next == "generate_code"
    quotes = repairs or decision.stop_reason in QUOTING
    quotable = not quotes or telemetry.captures_content()
    others = {
        "mull.draft.index": decision.draft,
        "mull.needs_review": decision.waits_for_review,
        "mull.reason": decision.reason if quotable else None,
    }
    return {**base.numbers(decision, NUMBERS), **base.known(others)}


def _record_node(span: Span, node: str, run: Run, ended: Ended | None) -> None:
    """Write into a node's span what it left behind, or why the run ends there."""
    if ended is not None:
        span.set_attribute("error.type", ended.reason or "cut_short")
        return
    numbers: dict[str, base.Attribute | None] = {}
    draft = run.drafts[-1] if run.drafts else None
    if node == "retrieve":
        numbers["mull.passages"] = len(run.sources)
    elif node == "route":
        numbers["mull.mode"] = run.state.mode
        numbers["mull.chosen_by"] = run.routing.chosen_by if run.routing else None
    elif node == "write_tests":
        numbers["mull.total"] = len(run.suite.cases) if run.suite else None
    elif draft is not None:
        numbers["mull.draft.index"] = draft.index
        if node == "reflect_on_report":
            numbers["mull.critiques"] = len(draft.critiques or ())
            numbers["mull.suggestions"] = len(draft.suggestions)
        if node == "test_code" and draft.report is not None:
            found = base.numbers(draft.report, ("passed", "total", "status", "backend"))
            numbers |= found | {"mull.quarantined": len(run.quarantined)}
    span.set_attributes(base.known(numbers))
