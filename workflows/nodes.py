"""The nodes of the agent: which call is made at each, and what becomes of its reply."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

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
        RouteTask,
        TestsTask,
    )
    from activities.sandbox import port as sandbox
    from mull.multipath.loop import Run
    from mull.multipath.request import OUTPUT_BYTES
    from mull.multipath.result import Draft, Routing, StopReason
    from mull.multipath.state import Mode
    from mull.multipath.suite import Suite
    from mull.run import Part
    from mull.text import CUT_NOTE
    from workflows.calls import (
        Calls,
        Lost,
        People,
        call_times,
        explain,
        lost,
        permanent,
        retrieval_times,
        run_locally,
        test_times,
    )

Value = TypeVar("Value", bound=Replied)


class Ended(NamedTuple):
    """Why a run ends at a node and not by the transition function; None if it was cut short."""

    reason: StopReason | None
    said: str = ""


CUT_SHORT = Ended(None)


class Nodes:
    """The work of each node, a method of its name.

    Each returns why the run ends there, or None where the transition function decides.
    """

    def __init__(self, run: Run, calls: Calls, people: People) -> None:
        self._run = run
        self._request = run.request
        self._calls = calls
        self._people = people
        self._entry = run.request.entry
        request, limit = run.request, run.request.max_output_tokens
        self._times = call_times(request.call_timeout_seconds, request.max_attempts, limit)

    @property
    def part(self) -> Part:
        """The part of the spending that the next draft belongs to."""
        return "revising" if self._run.drafts else "generating"

    async def retrieve(self) -> Ended | None:
        """Search the documents for D; without any it stays empty.

        Raises ApplicationError if they can't be searched: an answer must not rest on less.
        """
        request = self._request
        if request.docs is None:
            return None
        task = RetrievalTask(prompt=request.prompt, docs=request.docs, passages=request.passages)
        times = retrieval_times(request.max_attempts)
        summary = f"up to {request.passages} passages"
        found = await self._calls.make(DocumentActivities.retrieve, task, summary, times)
        if isinstance(found, ActivityError):
            raise permanent(found) or lost(explain(found)).failure
        if found is None:
            return CUT_SHORT
        self._run.retrieved(found.passages)
        for warning in (*found.warnings, *found.left_out):
            self._run.warn(warning)
        return None

    async def route(self) -> Ended | None:
        """Choose M, as the request or the model says; a reply unreadable twice is an outcome.

        Raises ApplicationError where the model can't be asked at all: nothing is there to keep.
        """
        mode = self._request.mode
        if mode is not None:
            self._run.routed(Routing(mode=mode, reason="the request names it", chosen_by="request"))
            return None
        task = RouteTask(**self._bounds())
        asked = MultiPathActivities.route, task, "research or code"
        reply = await self._ask("evaluating", *asked)
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost):
            raise reply.failure
        self._run.routed(reply.routing)
        return None

    async def generate_report(self) -> Ended | None:
        """Write the first report, or refine the last one by K."""
        state, index = self._run.state, len(self._run.drafts)
        task = ReportTask(
            **self._writing(),
            report=state.output if index else None,
            critiques=state.critiques,
            suggestions=state.suggestions,
            creative=self._request.creative,
        )
        refines = f": draft {state.revisions} refined" if index else ""
        asked = MultiPathActivities.generate_report, task, f"draft {index + 1}{refines}"
        return self._keep("research", await self._ask(self.part, *asked))

    async def reflect_on_report(self) -> Ended | None:
        """Find K of the newest report; where that can't be had twice, the run ends."""
        request, index = self._request, len(self._run.drafts) - 1
        task = ReflectionTask(
            **{**self._bounds(), "model": request.judge},
            index=index,
            sources=self._run.sources,
            report=self._run.state.output,
            creative=request.creative,
            writer=request.model,
        )
        summary = f"draft {index + 1}: ask {request.judge or 'the judge'}"
        asked = MultiPathActivities.reflect_on_report, task, summary
        reply = await self._ask("evaluating", *asked)
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost) or reply.error is not None:
            why = reply if isinstance(reply, Lost) else reply.error
            return Ended("reflection_failed", f"reflection on the report failed: {why}")
        self._run.reflected(reply.critiques, reply.suggestions, reply.assembled)
        return None

    async def find_tests(self) -> None:
        """Take the user's tests, or else the prompt's examples, if there are any."""
        request, tests = self._request, self._request.tests
        task = ExamplesTask(
            prompt=request.prompt, entry=request.entry, tests=tests.text if tests else None
        )
        found: Examples | None = await run_locally(read_examples, task)
        if found is None:
            self._run.warn("the prompt's examples could not be read")
            found = Examples(cases=())
        self._entry = entry = request.entry or found.entry
        if tests is not None:
            self._run.suite = Suite(origin="user", kind=tests.kind, file=tests, entry=entry)
        elif found.cases:
            self._run.suite = Suite(origin="prompt", kind="cases", cases=found.cases, entry=entry)

    async def write_tests(self) -> Ended | None:
        """Have tests written; where they can't be had twice, the run goes on without."""
        task = TestsTask(**self._bounds(), entry=self._entry, seed=self._request.seed or 0)
        reply = await self._ask("generating", MultiPathActivities.write_tests, task, "tests")
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost) or reply.error is not None:
            why = reply if isinstance(reply, Lost) else reply.error
            self._run.untested = f"no usable tests: {why}"
        else:
            cases, entry = reply.cases, reply.entry
            self._run.suite = Suite(origin="model", kind="cases", cases=cases, entry=entry)
        return None

    async def generate_code(self) -> Ended | None:
        """Write the first code, or repair the last by E."""
        state, suite, index = self._run.state, self._run.suite, len(self._run.drafts)
        task = CodeTask(
            **self._writing(),
            suite=suite,
            entry=suite.entry if suite else self._entry,
            code=state.output if index else None,
            failure=state.error,
        )
        summary = f"draft {index + 1}{': a repair' if index else ''}"
        asked = MultiPathActivities.generate_code, task, summary
        return self._keep("code", await self._ask(self.part, *asked))

    async def test_code(self) -> Ended | None:
        """Find E of the newest code in a sandbox; where it can't be tested, the run ends."""
        request, suite, index = self._request, self._run.suite, len(self._run.drafts) - 1
        if suite is None:
            return Ended("test_failed", self._run.untested or "there are no tests")
        task = TestTask(
            index=index,
            code=self._run.state.output,
            suite=suite,
            language=request.language,
            packages=request.packages,
            limits=request.limits,
        )
        tests = suite.file.name if suite.file is not None else f"{len(suite.cases)} tests"
        times = test_times(request.limits.wall_seconds, request.max_attempts)
        asked = TestingActivities.test_code, task, f"draft {index + 1}: {tests}"
        report = await self._calls.make(*asked, times, sandbox.TASK_QUEUE)
        if isinstance(report, ActivityError):
            why = explain(report)
            return Ended("test_failed", f"the code could not be tested: {why}")
        if report is None:
            return CUT_SHORT
        self._run.tested(report)
        return None

    def _bounds(self) -> dict[str, Any]:
        request = self._request
        return {
            "prompt": request.prompt,
            "model": request.model,
            "max_output_tokens": request.max_output_tokens,
            "timeout_seconds": request.call_timeout_seconds,
            "max_attempts": request.max_attempts,
        }

    def _writing(self) -> dict[str, Any]:
        return {
            **self._bounds(),
            "index": len(self._run.drafts),
            "sources": self._run.sources,
            "temperature": self._request.temperature,
            "seed": self._request.seed,
            "output_bytes": OUTPUT_BYTES,
        }

    async def _ask(
        self, part: Part, activity: Callable[..., Awaitable[Value]], task: AgentTask, summary: str
    ) -> Value | Lost | Ended:
        """Ask, and once more with what was wrong where the reply can't be read.

        The second reply counts, whatever it is: its `error` says where it can't be used.
        """
        reply = await self._paid(part, activity, task, summary)
        if isinstance(reply, Replied) and reply.unreadable:
            full = self._run.no_room(part)
            if self._people.over or full:
                return CUT_SHORT if self._people.over else Ended("budget", full or "")
            task = task.model_copy(update={"error": reply.error})
            again = f"{summary} again: the reply could not be read"
            reply = await self._paid(part, activity, task, again)
        return reply

    async def _paid(
        self, part: Part, activity: Callable[..., Awaitable[Value]], task: AgentTask, summary: str
    ) -> Value | Lost | Ended:
        reply = await self._calls.ask(part, activity, task, summary, self._times)
        if isinstance(reply, ActivityError):
            return lost(explain(reply))
        return reply or CUT_SHORT

    def _keep(self, mode: Mode, reply: Generated | Lost | Ended) -> Ended | None:
        """Keep a new draft, with the person who asked for it where one did.

        If there is no text, the run ends. Raises ApplicationError if the call for the first draft
        failed.
        """
        run, author = self._run, self._run.last.author if self._run.last else None
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost) and not run.drafts:
            raise reply.failure
        if isinstance(reply, Lost) or reply.text is None:
            why = reply if isinstance(reply, Lost) else lost(reply.error)
            better = "better " if run.drafts else ""
            return Ended("generation_failed", f"no {better}draft could be generated: {why}")
        index, seed, receipt = len(run.drafts), self._request.seed, reply.receipt
        if reply.text.endswith(CUT_NOTE):
            run.warn(f"draft {index + 1} was cut to {OUTPUT_BYTES:,} bytes, the size for a result")
        elif reply.cut:
            run.warn(f"draft {index + 1} was cut off by its provider: it is not whole")
        draft = Draft(
            index=index,
            mode=mode,
            text=reply.text,
            origin="refined" if index else "generated",
            author=author,
            model=receipt.model,
            seed=None if seed is None or "seed" in receipt.left_out else seed + index,
            max_output_tokens=receipt.max_output_tokens,
            cut=reply.cut,
            attempts=receipt.attempts,
            spending=receipt.spending,
            timestamp=reply.timestamp,
        )
        run.generated(draft, reply.assembled)
        return None
