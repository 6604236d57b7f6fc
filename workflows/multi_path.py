"""Retrieve, route, then research or code: each draft is checked and revised."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from mull import telemetry
    from mull.multipath import loop
    from mull.multipath.loop import Run
    from mull.multipath.request import MultiPathRequest
    from mull.multipath.result import Decision, MultiPathResult, StopReason
    from mull.multipath.sheet import sheet
    from mull.multipath.state import Node
    from mull.run import Part
    from mull.sheet import Sheet
    from workflows import base
    from workflows.base import DraftWorkflow
    from workflows.nodes import Ended, Nodes

WRITES = frozenset({"generate_report", "generate_code"})
# Their explanations quote what a model, a test or a document said.
QUOTING: frozenset[StopReason] = frozenset({"unrouted", "reflection_failed", "test_failed"})
NUMBERS = (
    "after", "next", "mode", "revisions", "critiques", "passed", "total", "stop", "stop_reason",
)  # fmt: skip


@workflow.defn(failure_exception_types=[ValidationError])
class MultiPathWorkflow(DraftWorkflow[Run]):
    """Write a report or code until nothing is left to fix, or a bound or a person says stop."""

    request_type = MultiPathRequest

    @workflow.init
    def __init__(self, request: MultiPathRequest) -> None:
        """Begin with S as the source has it: P, and nothing else."""
        super().__init__(Run(request))
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
        with self._running() as span:
            await self._find_attributes()
            await self._walk_until_decided()
            while not self._state.stopped:
                await self._wait_for_review()
                await self._walk_until_decided()
            result: MultiPathResult = self._state.result()
            output = (result.output or "")[:400]
            self._conclude(span, {"mode": result.mode, "open": result.open, "output": output})
            return result

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
        self._step = node
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
        self._step = "generate_code"
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
        asks = node == "reflect_on_report" or (node == "route" and self._state.request.mode is None)
        return "evaluating" if asks else None

    def _end(self, ended: Ended) -> None:
        if ended.reason is None:
            self._cut_short()
        else:
            self._stop(ended.reason, ended.said)

    async def _revise_for(self, asked: str, author: str) -> None:
        self._decided(loop.grant(self._state, asked, author, workflow.now()))

    def _sheet(self) -> Sheet:
        return sheet(self._progress())

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
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

    def _updates(self) -> list[base.Update]:
        return [telemetry.REVISIONS.value_set(self._state.state.revisions), *super()._updates()]

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
