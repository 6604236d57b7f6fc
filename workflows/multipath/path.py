"""The way of a run through its nodes: each is visited, and left by the transition function."""

import asyncio
from collections.abc import Awaitable, Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.multipath import loop
    from reflection.multipath.loop import Run
    from reflection.multipath.request import MultiPathRequest
    from reflection.multipath.result import Progress, Step, StopReason
    from reflection.multipath.state import Node
    from reflection.run import Finish, Part, Review
    from workflows.calls import Calls, Patience
    from workflows.multipath.nodes.asking import Asking, Ended
    from workflows.multipath.nodes.coding import Coder
    from workflows.multipath.nodes.drafting import part_of
    from workflows.multipath.nodes.researching import Researcher
    from workflows.multipath.nodes.retrieving import Retrieving
    from workflows.multipath.nodes.routing import Router
    from workflows.multipath.nodes.testing import Tester
    from workflows.multipath.view import View
    from workflows.reviewing import Reviewing

SOMEBODY = "a person"


class Path:
    """What a run does, node by node; each visit ends with a decision in `run`."""

    def __init__(self, request: MultiPathRequest) -> None:
        self._request = request
        self.run = Run(request)
        self.finish: Finish | None = None
        self.reviewing = Reviewing(lambda: self.finish is not None)
        self._calls = Calls(
            Patience(lambda: self.finish is not None, self._seconds_left), self.run.ledger.lose
        )
        asking = Asking(self.run, self._calls)
        self._coder, researcher = Coder(self.run, asking), Researcher(self.run, asking)
        self._nodes: dict[Node, Callable[[], Awaitable[Ended | None]]] = {
            "retrieve": Retrieving(self.run, self._calls).retrieve,
            "route": Router(self.run, asking).route,
            "generate_report": researcher.generate,
            "reflect_on_report": researcher.reflect,
            "generate_code": self._coder.generate,
            "test_code": Tester(self.run, self._calls).test,
        }
        self._step: Step = "starting"
        self.view = View(self.run, self.standing)

    def standing(self) -> Progress:
        """Say where the run stands."""
        return loop.progress(self.run, self._step, self._calls.in_flight, self.reviewing.until)

    async def walk(self) -> None:
        """Visit one node after the other, until a decision says otherwise."""
        while (node := self.run.next) is not None:
            if node == "generate_code" and not self.run.drafts and not await self._find_tests():
                return
            await self._visit(node)

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
            self._follow(given)

    def refused(self, given: Review) -> str | None:
        """Say why a review can't be followed; None where it can be."""
        left = self._seconds_left()
        if given.revise is not None and left is not None and left <= 0:
            return "nothing can be revised any more: the time is up"
        return loop.refused(self.run, given)

    async def _visit(self, node: Node) -> None:
        """Do a node's work, and decide."""
        if not self._has_room(self._part(node)):
            return
        self._at(node)
        with self.view.node(node) as leave:
            ended = await self._nodes[node]()
            leave(ended)
        if ended is None or ended.reason is not None:
            self.run.after = node
        if ended is None:
            self.view.decided(self.run.move(workflow.now()))
        else:
            self._end(ended)

    async def _find_tests(self) -> bool:
        """Decide what the code is held to; False where the run ended meanwhile."""
        self._at("generate_code")
        await self._coder.find_tests()
        if self.run.suite is not None:
            return True
        if not self._has_room("generating"):
            return False
        with self.view.node("write_tests") as leave:
            ended = await self._coder.write_tests()
            leave(ended)
        if ended is not None:
            self._end(ended)
        return ended is None

    def _part(self, node: Node) -> Part | None:
        """Name the part of the spending that a node's call belongs to; None: it asks no model."""
        if node in {"generate_report", "generate_code"}:
            return part_of(self.run)
        asks = node == "reflect_on_report" or (node == "route" and self._request.mode is None)
        return "evaluating" if asks else None

    def _seconds_left(self) -> float | None:
        """The seconds until the deadline; those spent waiting for a person do not count."""
        if self._request.budget_seconds is None:
            return None
        used = workflow.now() - workflow.info().start_time - self.reviewing.waited()
        return self._request.budget_seconds - used.total_seconds()

    def _at(self, step: Step) -> None:
        self._step = step
        self.view.show()

    def _stop(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self.view.decided(self.run.stop(reason, said, workflow.now(), author))

    def _settle(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self.view.decided(self.run.settle(reason, said, workflow.now(), author))

    def _end(self, ended: Ended) -> None:
        if ended.reason is None:
            self._cut_short()
        else:
            self._stop(ended.reason, ended.said)

    def _cut_short(self) -> None:
        """End the run after a call that a person's wish or the deadline cut short."""
        if self.finish is not None:
            who = self.finish.author or SOMEBODY
            self._stop("finished_by_person", f"finished by {who}", who)
        else:
            self._stop("deadline", f"the {self._request.budget_seconds:g} seconds are over")

    def _has_room(self, part: Part | None) -> bool:
        """Tell whether a node may be visited; end the run where it may not."""
        if self._calls.over:
            self._cut_short()
            return False
        full = None if part is None else self.run.ledger.no_room(part)
        if full is not None:
            self._stop("budget", full)
        return full is None

    def _follow(self, given: Review | None) -> None:
        said = given or self.finish
        who = (said.author if said else None) or SOMEBODY
        if given is None:
            self._settle("finished_by_person", f"finished by {who}", who)
        elif given.replace is not None:
            loop.replace(self.run, given.replace, who, workflow.now())
            self._settle("replaced_by_person", f"replaced by {who}", who)
        elif given.revise is not None:
            self.view.decided(loop.grant(self.run, given.revise, who, workflow.now()))
        else:
            self._settle("accepted_by_person", f"accepted by {who}", who)
