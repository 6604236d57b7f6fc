"""Retrieve, route, then research or code: each draft is checked and revised."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal, TypeVar

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.checks import Examples, ExamplesTask, read_examples
    from activities.code_tests.activity import TestingActivities, TestTask
    from activities.documents.retrieval import DocumentActivities, RetrievalTask
    from activities.multipath import (
        AgentTask,
        CodeTask,
        Generated,
        MultiPathActivities,
        ReflectionTask,
        Replied,
        ReportTask,
        TestsTask,
    )
    from activities.sandbox import port as sandbox
    from mull import telemetry
    from mull.multipath import loop
    from mull.multipath.loop import Run
    from mull.multipath.parts import Mode, Node, Passage
    from mull.multipath.request import OUTPUT_BYTES, MultiPathRequest
    from mull.multipath.result import Decision, Draft, MultiPathResult, Routing, StopReason
    from mull.multipath.sheet import sheet
    from mull.multipath.suite import Suite
    from mull.request import Review
    from mull.run import Part
    from mull.text import CUT_NOTE
    from workflows import base
    from workflows.base import DraftWorkflow
    from workflows.calls import Call, Lost, call_times, explain, lost, run_locally, work_times

Value = TypeVar("Value", bound=Replied)

WRITES = frozenset({"generate_report", "generate_code"})
# Their explanations quote what a model, a test or a document said.
QUOTING: frozenset[StopReason] = frozenset({"unrouted", "reflection_failed", "test_failed"})
# A first index of 10,000 files takes under a minute on two idle cores: ten times that for a folder
# of 50,000, for PDFs, or for a busy machine. An attempt that ends too early loses seconds: the
# next one goes on from what was kept.
INDEXING = timedelta(minutes=10)
# As long as a search waits for another worker that writes the same index.
INDEX_LOCK = timedelta(seconds=60)
# Making a sandbox, and clearing it away, on a machine that is busy.
SANDBOX = timedelta(seconds=30)


def retrieval_times(max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs of a search: the first one of a folder also indexes it."""
    return work_times((INDEX_LOCK + INDEXING).total_seconds(), max_attempts)


def test_times(wall_seconds: float, max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs of a test of code that may run for so many seconds."""
    return work_times(wall_seconds + SANDBOX.total_seconds(), max_attempts)


class Ended(Exception):  # noqa: N818 - an outcome, as StopIteration is, and not an error
    """The walk ends at a node, for a `reason`; without one the run was cut short."""

    def __init__(self, reason: StopReason | None = None, said: str = "") -> None:
        super().__init__(said)
        self.reason, self.said = reason, said


@workflow.defn(failure_exception_types=[ValidationError])
class MultiPathWorkflow(DraftWorkflow[Run]):
    """Write a report or code until nothing is left to fix, or a bound or a person says stop."""

    request_type = MultiPathRequest
    make_sheet = staticmethod(sheet)
    span_fields = ("after", "next", "mode", "revisions", "critiques", "passed", "total")

    @workflow.init
    def __init__(self, request: MultiPathRequest) -> None:
        """Begin with S as the source has it: P, and nothing else."""
        super().__init__(Run(request))
        self._request, self._entry = request, request.entry
        limit = request.max_output_tokens
        self._times = call_times(request.call_timeout_seconds, request.max_attempts, limit)

    @workflow.run
    async def run(self, _: MultiPathRequest) -> MultiPathResult:
        """Walk from node to node, ask a person where that is wanted, and return the result."""
        with self._running() as span:
            await self._find_attributes()
            with suppress(Ended):
                await self._retrieve()
                await self._route()
                if self._state.mode == "code":
                    await self._find_tests()
                await self._write_and_check()
            while not self._state.stopped:
                await self._wait_for_review()
                with suppress(Ended):
                    await self._write_and_check()
            result: MultiPathResult = self._state.result()
            known = {"mode": result.mode, "open": result.open}
            self._conclude(span, result, {**known, "output": (result.output or "")[:400]})
            return result

    async def _write_and_check(self) -> None:
        """Reflect on or test each draft, and refine it, until a decision ends the run or waits."""
        while self._state.goes_on:
            if self._state.mode == "research":
                await self._generate_report()
                await self._reflect_on_report()
            else:
                await self._generate_code()
                await self._test_code()

    async def _retrieve(self) -> None:
        """Search the documents for D; without any it stays empty.

        Raises ApplicationError if they can't be searched: an answer must not rest on less.
        """
        request = self._request
        passages: tuple[Passage, ...] = ()
        with self._node("retrieve") as span:
            if request.docs is not None:
                task = RetrievalTask(
                    prompt=request.prompt, docs=request.docs, passages=request.passages
                )
                times = retrieval_times(request.max_attempts)
                summary = f"up to {request.passages} passages"
                call = Call(DocumentActivities.retrieve, task, summary, times)
                found = await self._calls.make(call)
                if isinstance(found, ActivityError):
                    raise lost(found).failure
                if found is None:
                    raise Ended
                passages = found.passages
                for warning in (*found.warnings, *found.left_out):
                    self._state.warn(warning)
            span.set_attribute("mull.passages", len(passages))
        self._decided(self._state.retrieved(passages, workflow.now()))

    async def _route(self) -> None:
        """Choose M, as the request or the model says; two unreadable replies are an outcome.

        Raises ApplicationError where the model can't be asked at all, since there is no draft.
        """
        mode = self._request.mode
        with self._node("route", None if mode else "evaluating") as span:
            if mode is not None:
                why = "the request names it"
                routing = Routing(mode=mode, reason=why, chosen_by="request")
            else:
                task = AgentTask.of(self._request)
                call = Call(MultiPathActivities.route, task, "research or code", self._times)
                reply = await self._ask("evaluating", call)
                if isinstance(reply, Lost):
                    raise reply.failure
                routing = reply.routing
            chosen = {"mull.mode": routing.mode, "mull.chosen_by": routing.chosen_by}
            span.set_attributes(base.known(chosen))
        self._decided(self._state.routed(routing, workflow.now()))

    async def _generate_report(self) -> None:
        """Write the first report, or refine the last one by K."""
        run, index = self._state, len(self._state.drafts)
        task = ReportTask.of(
            self._request,
            index=index,
            sources=run.sources,
            report=run.output if index else None,
            critiques=run.critiques,
            suggestions=run.suggestions,
        )
        summary = f"draft {index + 1}" + (f": draft {run.revisions} refined" if index else "")
        call = Call(MultiPathActivities.generate_report, task, summary, self._times)
        await self._generate("generate_report", "research", call)

    async def _reflect_on_report(self) -> None:
        """Find K of the newest report; the run ends where two replies can't be used."""
        request, index = self._request, len(self._state.drafts) - 1
        task = ReflectionTask.of(
            request,
            model=request.judge,
            index=index,
            sources=self._state.sources,
            report=self._state.output,
            writer=request.model,
        )
        summary = f"draft {index + 1}: ask {request.judge or 'the judge'}"
        call = Call(MultiPathActivities.reflect_on_report, task, summary, self._times)
        with self._node("reflect_on_report", "evaluating") as span:
            reply = await self._ask("evaluating", call)
            if isinstance(reply, Lost) or reply.error is not None:
                why = reply if isinstance(reply, Lost) else reply.error
                raise Ended("reflection_failed", f"reflection on the report failed: {why}")
            span.set_attribute("mull.critiques", len(reply.critiques))
            span.set_attribute("mull.draft.index", index)
            span.set_attribute("mull.suggestions", len(reply.suggestions))
        known = reply.critiques, reply.suggestions, workflow.now(), reply.assembled
        self._decided(self._state.reflected(*known))

    async def _find_tests(self) -> None:
        """Take the user's tests, or else the prompt's examples, or have tests written."""
        self._step = "generate_code"
        request, tests = self._request, self._request.tests
        task = ExamplesTask(
            prompt=request.prompt, entry=request.entry, tests=tests.text if tests else None
        )
        found: Examples | None = await run_locally(read_examples, task)
        if found is None:
            self._state.warn("the prompt's examples could not be read")
            found = Examples(cases=())
        self._entry = entry = request.entry or found.entry
        if tests is not None:
            self._state.suite = Suite(origin="user", kind=tests.kind, file=tests, entry=entry)
        elif found.cases:
            cases = found.cases
            self._state.suite = Suite(origin="prompt", kind="cases", cases=cases, entry=entry)
        else:
            await self._write_tests()

    async def _write_tests(self) -> None:
        """Have tests written; the run goes on without them where two replies can't be used."""
        task = TestsTask.of(self._request, entry=self._entry, seed=self._request.seed or 0)
        with self._node("write_tests", "generating") as span:
            call = Call(MultiPathActivities.write_tests, task, "tests", self._times)
            reply = await self._ask("generating", call)
            if isinstance(reply, Lost) or reply.error is not None:
                why = reply if isinstance(reply, Lost) else reply.error
                self._state.untested = f"no usable tests: {why}"
                return
            cases, entry = reply.cases, reply.entry
            self._state.suite = Suite(origin="model", kind="cases", cases=cases, entry=entry)
            span.set_attribute("mull.total", len(cases))

    async def _generate_code(self) -> None:
        """Write the first code, or repair the last by E."""
        run, suite, index = self._state, self._state.suite, len(self._state.drafts)
        task = CodeTask.of(
            self._request,
            index=index,
            sources=run.sources,
            suite=suite,
            entry=suite.entry if suite else self._entry,
            code=run.output if index else None,
            failure=run.error,
        )
        summary = f"draft {index + 1}{': a repair' if index else ''}"
        call = Call(MultiPathActivities.generate_code, task, summary, self._times)
        await self._generate("generate_code", "code", call)

    async def _test_code(self) -> None:
        """Find E of the newest code in a sandbox; where it can't be tested, the run ends."""
        request, suite, index = self._request, self._state.suite, len(self._state.drafts) - 1
        with self._node("test_code") as span:
            if suite is None:
                raise Ended("test_failed", self._state.untested or "there are no tests")
            task = TestTask(
                index=index,
                code=self._state.output,
                suite=suite,
                language=request.language,
                packages=request.packages,
                limits=request.limits,
            )
            tests = suite.file.name if suite.file is not None else f"{len(suite.cases)} tests"
            times = test_times(request.limits.wall_seconds, request.max_attempts)
            summary = f"draft {index + 1}: {tests}"
            call = Call(TestingActivities.test_code, task, summary, times, sandbox.TASK_QUEUE)
            report = await self._calls.make(call)
            if isinstance(report, ActivityError):
                raise Ended("test_failed", f"the code could not be tested: {explain(report)}")
            if report is None:
                raise Ended
            decision = self._state.tested(report, workflow.now())
            span.set_attribute("mull.draft.index", index)
            span.set_attributes(base.numbers(report, ("passed", "total", "status", "backend")))
            span.set_attribute("mull.quarantined", len(self._state.quarantined))
        self._decided(decision)

    async def _generate(self, node: Node, mode: Mode, call: Call[Generated]) -> None:
        """Have a draft written, and keep it with the person who asked for it, if any.

        If there is no text, the run ends. Raises ApplicationError if the call for the first draft
        failed.
        """
        run, index, seed = self._state, len(self._state.drafts), self._request.seed
        part: Part = "revising" if index else "generating"
        with self._node(node, part) as span:
            reply = await self._ask(part, call)
            if isinstance(reply, Lost) and not index:
                raise reply.failure
            if isinstance(reply, Lost) or reply.text is None:
                why = reply if isinstance(reply, Lost) else lost(reply.error)
                better = "better " if index else ""
                raise Ended("generation_failed", f"no {better}draft could be generated: {why}")
            span.set_attribute("mull.draft.index", index)
        if reply.text.endswith(CUT_NOTE):
            run.warn(f"draft {index + 1} was cut to {OUTPUT_BYTES:,} bytes, the size for a result")
        elif reply.cut:
            run.warn(f"draft {index + 1} was cut off by its provider: it is not whole")
        receipt = reply.receipt
        draft = Draft(
            index=index,
            mode=mode,
            text=reply.text,
            origin="refined" if index else "generated",
            author=run.last.author if run.last else None,
            seed=None if seed is None or "seed" in receipt.left_out else seed + index,
            cut=reply.cut,
            timestamp=reply.timestamp,
            **dict(receipt),
        )
        self._decided(run.generated(draft, workflow.now(), reply.assembled))

    @contextmanager
    def _node(
        self, name: Node | Literal["write_tests"], part: Part | None = None
    ) -> Iterator[Span]:
        """Span the work of one node under its own name, in the history's group of its draft.

        `part` is what the spending of its calls belongs to; None: it asks no model. Raises Ended,
        once that is decided and recorded, where there is no room for it or its work ends the run.
        """
        if not self._has_room(part):
            raise Ended
        if name != "write_tests":
            self._step = name
        number = self._state.revisions + (name in WRITES)
        group = f"draft {number}" if number else None
        ended: Ended | None = None
        with base.span(name, telemetry.NODE_KINDS[name], {"mull.revision": number}, group) as span:
            try:
                yield span
            except Ended as error:
                span.set_attribute("error.type", error.reason or "cut_short")
                ended = error
        if ended is None:
            return
        if ended.reason is None:
            self._cut_short()
        else:
            if name != "write_tests":
                self._state.after = name
            self._stop(ended.reason, ended.said)
        raise ended

    async def _ask(self, part: Part, call: Call[Value]) -> Value | Lost:
        """Ask, and once more with what was wrong where the reply can't be read.

        The second reply counts, whatever it is: its `error` says where it can't be used. Raises
        Ended where the run was cut short, or has no room to ask again.
        """

        def has_room() -> bool:
            if self._people.over:
                raise Ended
            if full := self._state.no_room(part):
                raise Ended("budget", full)
            return True

        [*_, reply] = await self._calls.ask_twice(part, call, has_room)
        if isinstance(reply, ActivityError):
            return lost(reply)
        if reply is None:
            raise Ended
        return reply

    async def _follow(self, said: Review, who: str) -> None:
        if said.revise is None:
            await super()._follow(said, who)
        else:
            self._decided(loop.grant(self._state, said.revise, who, workflow.now()))

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
        return base.known({"mull.draft.index": decision.draft}) | super()._numbers(decision)

    def _quotes(self, decision: Decision) -> bool:
        repairs = decision.after == "test_code" and decision.next == "generate_code"
        return repairs or decision.stop_reason in QUOTING

    def _updates(self) -> list[base.Update]:
        return [telemetry.REVISIONS.value_set(self._state.revisions), *super()._updates()]
