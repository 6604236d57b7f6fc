"""The nodes of the agent: which call is made at each, and what becomes of its reply."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.checks import Examples, ExamplesTask, read_examples
    from activities.code_tests.activity import TestingActivities, TestTask
    from activities.documents.retrieval import DocumentActivities, Retrieval, RetrievalTask
    from activities.language_model.port import TASK_QUEUE
    from activities.multipath import (
        CodeTask,
        Generated,
        MultiPathActivities,
        Reflected,
        ReflectionTask,
        Replied,
        ReportTask,
        Routed,
        RouteTask,
        Tests,
        TestsTask,
    )
    from activities.sandbox import port as sandbox
    from reflection.multipath.loop import Run
    from reflection.multipath.request import OUTPUT_BYTES
    from reflection.multipath.result import Draft, Routing, StopReason
    from reflection.multipath.state import Mode
    from reflection.multipath.suite import Suite, TestReport
    from reflection.run import Part
    from workflows.calls import (
        Calls,
        attempts_of,
        call_times,
        explain,
        permanent,
        retrieval_times,
        run_locally,
        test_times,
    )

Value = TypeVar("Value", bound=Replied)

AGAIN = " again: the reply could not be read"


class Ended(NamedTuple):
    """Why a run ends at a node, and not by the transition function; None: it was cut short."""

    reason: StopReason | None
    said: str = ""


class Lost(NamedTuple):
    """Why there is no reply that can be used: the error's kind, and its words."""

    kind: str
    said: str

    def __str__(self) -> str:
        """Say both on one line."""
        return f"{self.kind}: {self.said}"

    @property
    def failure(self) -> ApplicationError:
        """The failure of the run, where it can't do without the reply."""
        return ApplicationError(self.said, type=self.kind, non_retryable=True)


def lost(error: str | None) -> Lost:
    """Take a line with its kind before the colon apart."""
    kind, _, said = (error or "nothing came").partition(": ")
    return Lost(kind, said) if said and " " not in kind else Lost("NoReply", error or kind)


class Models:
    """The calls of a run for language models: paid for, and made again where they can't be read."""

    def __init__(self, run: Run, calls: Calls) -> None:
        self._run = run
        self.calls = calls
        self.times = call_times(run.request.call_timeout_seconds, run.request.max_attempts)

    async def ask(
        self, part: Part, start: Callable[[str | None], workflow.ActivityHandle[Value]]
    ) -> Value | Lost | Ended:
        """Ask, and once more with what was wrong where the reply can't be read.

        The second reply counts, whatever it is: its `error` says where it can't be used.
        """
        reply = await self._reply(part, start(None))
        if isinstance(reply, Replied) and reply.unreadable:
            full = self._run.ledger.no_room(part)
            if self.calls.over or full:
                return Ended(None) if self.calls.over else Ended("budget", full or "")
            reply = await self._reply(part, start(reply.error))
        return reply

    async def _reply(
        self, part: Part, call: workflow.ActivityHandle[Value]
    ) -> Value | Lost | Ended:
        reply = await self.calls.reply(call)
        if reply.error is not None:
            tried = attempts_of(reply.error, self._run.request.max_attempts)
            self._run.ledger.pay(part, None, tried)
            return lost(explain(reply.error))
        if reply.value is None:
            return Ended(None)
        receipt = reply.value.receipt
        self._run.ledger.pay(part, receipt.spending, receipt.attempts)
        self._run.left_out(receipt.left_out)
        return reply.value


async def retrieve(run: Run, calls: Calls) -> Ended | None:
    """Search the documents for D; without any it stays empty.

    Raises ApplicationError where they can't be searched: no answer is to stand on less.
    """
    request = run.request
    if request.docs is None:
        return None
    call: workflow.ActivityHandle[Retrieval] = workflow.start_activity_method(
        DocumentActivities.retrieve,
        RetrievalTask(
            prompt=request.prompt,
            docs=request.docs,
            passages=request.passages,
            embedding_model=request.embedding_model,
            timeout_seconds=request.call_timeout_seconds,
        ),
        task_queue=TASK_QUEUE,
        summary=f"up to {request.passages} passages",
        **retrieval_times(request.call_timeout_seconds, request.max_attempts).options,
    )
    reply = await calls.reply(call)
    if reply.error is not None:
        raise permanent(reply.error) or lost(explain(reply.error)).failure
    found = reply.value
    if found is None:
        return Ended(None)
    if request.embedding_model is not None:
        failed = found.attempts - 1 + found.failed
        paid = found.spending is not None
        run.ledger.pay("retrieving", found.spending, failed + paid)
    run.retrieved(found.passages)
    for warning in (*found.warnings, *found.left_out):
        run.warn(warning)
    return None


async def route(run: Run, models: Models) -> Ended | None:
    """Choose M, as the request says or as the model does; a reply unreadable twice is an outcome.

    Raises ApplicationError where the model can't be asked at all: nothing is there to keep.
    """
    request = run.request

    def start(error: str | None) -> workflow.ActivityHandle[Routed]:
        return workflow.start_activity_method(
            MultiPathActivities.route,
            RouteTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                error=error,
            ),
            task_queue=TASK_QUEUE,
            summary=f"research or code{AGAIN if error else ''}",
            **models.times.options,
        )

    if request.mode is not None:
        reason = "the request names it"
        run.routed(Routing(mode=request.mode, reason=reason, chosen_by="request"))
        return None
    reply = await models.ask("evaluating", start)
    if isinstance(reply, Ended):
        return reply
    if isinstance(reply, Lost):
        raise reply.failure
    run.routed(reply.routing)
    return None


def part_of(run: Run) -> Part:
    """Name the part of the spending that the next draft belongs to."""
    return "revising" if run.drafts else "generating"


def _keep(run: Run, mode: Mode, reply: Generated | Lost | Ended) -> Ended | None:
    """Keep a new draft, with the person who asked for it where one did.

    Where the first one can't be had the run ends without any. Raises ApplicationError where no
    call for it could be made at all.
    """
    if isinstance(reply, Ended):
        return reply
    if isinstance(reply, Lost) or reply.text is None:
        if isinstance(reply, Lost) and not run.drafts:
            raise reply.failure
        why = reply if isinstance(reply, Lost) else lost(reply.error)
        better = "better " if run.drafts else ""
        return Ended("generation_failed", f"no {better}draft could be had: {why}")
    index, seed, receipt = len(run.drafts), run.request.seed, reply.receipt
    run.generated(
        Draft(
            index=index,
            mode=mode,
            text=reply.text,
            origin="refined" if run.drafts else "generated",
            author=run.last.author if run.last else None,
            model=receipt.model,
            seed=None if seed is None or "seed" in receipt.left_out else seed + index,
            cut=reply.cut,
            attempts=receipt.attempts,
            spending=receipt.spending,
            timestamp=reply.timestamp,
        ),
        reply.assembled,
    )
    return None


class Researcher:
    """Reports, and the reflection on each: `generate_report` and `reflect_on_report`."""

    def __init__(self, run: Run, models: Models) -> None:
        self._run = run
        self._request = run.request
        self._models = models

    async def generate(self) -> Ended | None:
        """Write the first report, or refine the last one by K."""
        reply = await self._models.ask(part_of(self._run), self._start_report)
        return _keep(self._run, "research", reply)

    async def reflect(self) -> Ended | None:
        """Find K of the newest report; where that can't be had twice, the run ends."""
        reply = await self._models.ask("evaluating", self._start_reflection)
        if isinstance(reply, Ended):
            return reply
        why = str(reply) if isinstance(reply, Lost) else reply.error
        if isinstance(reply, Lost) or why is not None:
            return Ended("reflection_failed", f"nobody could reflect on the report: {why}")
        self._run.reflected(reply.critiques, reply.suggestions, reply.assembled)
        return None

    def _start_report(self, _: str | None) -> workflow.ActivityHandle[Generated]:
        request, state, index = self._request, self._run.state, len(self._run.drafts)
        refines = f": draft {state.revisions} refined" if index else ""
        return workflow.start_activity_method(
            MultiPathActivities.generate_report,
            ReportTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                index=index,
                sources=self._run.sources,
                temperature=request.temperature,
                seed=request.seed,
                output_bytes=OUTPUT_BYTES,
                report=state.output if index else None,
                critiques=state.critiques,
                suggestions=state.suggestions,
                creative=request.creative,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}{refines}",
            **self._models.times.options,
        )

    def _start_reflection(self, error: str | None) -> workflow.ActivityHandle[Reflected]:
        request, index = self._request, len(self._run.drafts) - 1
        asked = f"ask {request.judge or 'the judge'}{AGAIN if error else ''}"
        return workflow.start_activity_method(
            MultiPathActivities.reflect_on_report,
            ReflectionTask(
                prompt=request.prompt,
                model=request.judge,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                index=index,
                sources=self._run.sources,
                report=self._run.state.output,
                creative=request.creative,
                error=error,
                writer=request.model,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}: {asked}",
            **self._models.times.options,
        )


class Coder:
    """The tests of a run, decided once, and the code: `generate_code` and `test_code`."""

    def __init__(self, run: Run, models: Models) -> None:
        self._run = run
        self._request = run.request
        self._models = models
        self._entry = run.request.entry

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
        reply = await self._models.ask("generating", self._start_tests)
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost) or reply.error is not None:
            why = str(reply) if isinstance(reply, Lost) else reply.error
            self._run.untested = f"no tests could be had: {why}"
        else:
            cases, entry = reply.cases, reply.entry
            self._run.suite = Suite(origin="model", kind="cases", cases=cases, entry=entry)
        return None

    async def generate(self) -> Ended | None:
        """Write the first code, or repair the last by E."""
        reply = await self._models.ask(part_of(self._run), self._start_code)
        return _keep(self._run, "code", reply)

    async def test(self) -> Ended | None:
        """Find E of the newest code in a sandbox; where it can't be tested, the run ends."""
        request, suite, index = self._request, self._run.suite, len(self._run.drafts) - 1
        if suite is None:
            return Ended("test_failed", self._run.untested or "there are no tests")
        tests = suite.file.name if suite.file is not None else f"{len(suite.cases)} tests"
        call: workflow.ActivityHandle[TestReport] = workflow.start_activity_method(
            TestingActivities.test_code,
            TestTask(
                index=index,
                code=self._run.state.output,
                suite=suite,
                language=request.language,
                packages=request.packages,
                limits=request.limits,
            ),
            task_queue=sandbox.TASK_QUEUE,
            summary=f"draft {index + 1}: {tests}",
            **test_times(request.limits.wall_seconds, request.max_attempts).options,
        )
        reply = await self._models.calls.reply(call)
        if reply.error is not None:
            why = explain(reply.error)
            return Ended("test_failed", f"the code could not be tested: {why}")
        if reply.value is None:
            return Ended(None)
        self._run.tested(reply.value)
        return None

    def _start_tests(self, error: str | None) -> workflow.ActivityHandle[Tests]:
        request = self._request
        return workflow.start_activity_method(
            MultiPathActivities.write_tests,
            TestsTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                entry=self._entry,
                seed=request.seed or 0,
                error=error,
            ),
            task_queue=TASK_QUEUE,
            summary=f"tests{AGAIN if error else ''}",
            **self._models.times.options,
        )

    def _start_code(self, error: str | None) -> workflow.ActivityHandle[Generated]:
        request, state, suite = self._request, self._run.state, self._run.suite
        index = len(self._run.drafts)
        repairs = ": a repair" if index else ""
        return workflow.start_activity_method(
            MultiPathActivities.generate_code,
            CodeTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                index=index,
                sources=self._run.sources,
                temperature=request.temperature,
                seed=request.seed,
                output_bytes=OUTPUT_BYTES,
                suite=suite,
                entry=suite.entry if suite else self._entry,
                code=state.output if index else None,
                failure=state.error,
                error=error,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}{repairs}{AGAIN if error else ''}",
            **self._models.times.options,
        )
