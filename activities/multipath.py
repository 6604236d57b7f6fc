"""The agent's model calls: the path, reports, reflections on them, code and tests.

The activity types are the names of the nodes. Each makes one call.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from activities.language_model.port import Asked, Drawn, Heard, LanguageModel, hear
from mull.drafts import Receipt
from mull.multipath import cases
from mull.multipath.extraction import extract_code
from mull.multipath.markup import unfenced
from mull.multipath.parts import Critique
from mull.multipath.prompts import (
    build_code_prompt,
    build_refinement_prompt,
    build_reflection_prompt,
    build_repair_prompt,
    build_report_prompt,
    build_tests_prompt,
)
from mull.multipath.reflections import ReflectionReply, parse_reflection, reflection_schema
from mull.multipath.report import assemble, with_checks
from mull.multipath.request import OUTPUT_BYTES
from mull.multipath.result import Routing, Source
from mull.multipath.routing import RouteReply, build_route_prompt, parse_route
from mull.multipath.suite import Case, Failure, Suite
from mull.replies import reply_schema
from mull.request import Record
from mull.text import AGAIN, cut_with_note, encoded_size, well_formed

NO_CODE = "NoCode: the reply contains no Python code"


class Replied(Record):
    """A reply; `error` says why it can't be used; if `unreadable`, asking again may help."""

    error: str | None = None
    unreadable: bool = False
    receipt: Receipt


class AgentTask(Asked):
    """What every call has: the run's prompt, and its bounds."""

    prompt: str


class DraftTask(Drawn, AgentTask):
    """What to write, from which sources; `index` counts drafts from 0."""

    index: int
    sources: tuple[Source, ...]
    # Workers of earlier versions require it.
    output_bytes: int = OUTPUT_BYTES

    @property
    def sampling(self) -> dict[str, object]:
        """The fields of a call for a draft: each draft has a seed of its own."""
        seed = None if self.seed is None else self.seed + self.index
        return {"seed": seed, "keep_cut": True}


class Routed(Replied):
    """Which path the model chose, and why."""

    routing: Routing


class ReportTask(DraftTask):
    """A report to write; with `report`, its `critiques` and `suggestions`, one to refine."""

    report: str | None
    critiques: tuple[Critique, ...]
    suggestions: tuple[str, ...]
    creative: bool


class CodeTask(DraftTask):
    """Code to write; with `code` and its `failure`, code to repair."""

    suite: Suite | None
    entry: str | None
    code: str | None
    failure: Failure | None


class Generated(Replied):
    """A draft's text, or None; `cut` is true where it is the beginning of a longer one.

    `assembled` is the report in its final form, with its sources and the suggestions so far.
    """

    text: str | None
    assembled: str | None = None
    cut: bool = False
    timestamp: datetime


class ReflectionTask(AgentTask):
    """A report to reflect on.

    The judge is `model`, or else the worker's judge, or else the `writer`.
    """

    index: int
    sources: tuple[Source, ...]
    report: str
    creative: bool
    writer: str | None


class Reflected(Replied):
    """K: the critiques, from rules and from the model, and suggestions of what to add.

    `assembled` is the report in its final form, with these suggestions.
    """

    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    assembled: str | None = None


class TestsTask(AgentTask):
    """Tests to write before any code."""

    __test__ = False

    entry: str | None


class WrittenTests(Replied):
    """The tests that the model wrote, and the function that they call."""

    __test__ = False

    cases: tuple[Case, ...] = ()
    entry: str | None = None


class MultiPathActivities:
    """The agent's model calls; `judge` is used if a reflection names no model.

    A reply that can't be used (filtered, refused, empty) or read is a reply with an error; every
    other failure is an ApplicationError, non-retryable if no such call can work. Reports are parsed
    in a thread, because a long one would block the worker's other calls.
    """

    def __init__(self, model: LanguageModel, judge: str | None = None) -> None:
        self._model = model
        self._judge = judge

    @activity.defn
    async def route(self, task: AgentTask) -> Routed:
        """Ask whether a prompt is for research or for code."""
        prompt = build_route_prompt(task.prompt, task.error)
        heard = await self._ask("route", task, prompt, reply_schema=reply_schema(RouteReply))
        if heard.text is None:
            routing = Routing(mode=None, reason="", chosen_by="model", error=heard.error)
        else:
            routing = parse_route(heard.text, task.prompt)
        return Routed(
            routing=routing,
            error=routing.error,
            unreadable=routing.error is not None,
            receipt=heard.receipt,
        )

    @activity.defn
    async def generate_report(self, task: ReportTask) -> Generated:
        """Ask for a report, or for a revision of one."""
        known = (task.prompt, task.sources)
        if task.report is None:
            prompt = build_report_prompt(*known, task.creative)
        else:
            prompt = build_refinement_prompt(*known, task.report, task.critiques, task.creative)
        heard = await self._ask("generate_report", task, prompt, **task.sampling)
        return await asyncio.to_thread(_report, heard, task)

    @activity.defn
    async def reflect_on_report(self, task: ReflectionTask) -> Reflected:
        """Ask for critiques of a report, and add those of rules that need no model."""
        task = task.model_copy(update={"model": task.model or self._judge or task.writer})
        prompt = build_reflection_prompt(
            task.prompt, task.sources, task.report, task.creative, task.error
        )
        schema = reflection_schema(task.creative)
        heard = await self._ask("reflect_on_report", task, prompt, reply_schema=schema)
        return await asyncio.to_thread(_reflection, heard, task)

    @activity.defn
    async def generate_code(self, task: CodeTask) -> Generated:
        """Ask for code, or for repaired code, and extract it; code that was cut off is not used."""
        known = (task.prompt, task.sources)
        if task.code is None or task.failure is None:
            prompt = build_code_prompt(*known, task.suite, task.entry)
        else:
            prompt = build_repair_prompt(*known, task.code, task.failure, task.suite, task.entry)
        if task.error is not None:
            prompt += AGAIN.replace("{error}", task.error)
        heard = await self._ask("generate_code", task, prompt, **task.sampling)
        code, error = None, heard.error
        if heard.text is not None:
            code = extract_code(heard.text, task.entry)
            error = NO_CODE if code is None else None
        if encoded_size(code or "") > OUTPUT_BYTES:
            code, error = None, f"NoCode: the code is over {OUTPUT_BYTES:,} bytes"
        return Generated(
            text=code,
            error=error,
            unreadable=code is None and heard.text is not None,
            cut=heard.receipt.finish_reason == "length",
            receipt=heard.receipt,
            timestamp=datetime.now(UTC),
        )

    @activity.defn
    async def write_tests(self, task: TestsTask) -> WrittenTests:
        """Ask for tests before the code is written."""
        prompt = build_tests_prompt(task.prompt, task.entry, task.error)
        schema = reply_schema(cases.TestsReply)
        heard = await self._ask("write_tests", task, prompt, reply_schema=schema)
        read = cases.Tests(error=heard.error)
        if heard.text is not None:
            read = cases.parse_tests(heard.text, task.entry)
        return WrittenTests(**dict(read), unreadable=read.error is not None, receipt=heard.receipt)

    async def _ask(self, node: str, task: AgentTask, prompt: str, **more: Any) -> Heard:
        """Ask once, with `more` fields of the call; a reply that can't be used becomes an error."""
        index = getattr(task, "index", None)
        labels = {"mull.node": node, **({} if index is None else {"mull.draft.index": index})}
        return await hear(self._model, task.call(prompt, labels=labels, **more))


def _report(heard: Heard, task: ReportTask) -> Generated:
    written = None if heard.text is None else unfenced(well_formed(heard.text))
    text = None if written is None else cut_with_note(written, OUTPUT_BYTES)
    assembled = None
    if text is not None:
        assembled = assemble(text, task.suggestions, task.sources, task.creative)
    return Generated(
        text=text,
        assembled=assembled,
        cut=text != written or heard.receipt.finish_reason == "length",
        error=heard.error,
        receipt=heard.receipt,
        timestamp=datetime.now(UTC),
    )


def _reflection(heard: Heard, task: ReflectionTask) -> Reflected:
    read = ReflectionReply(error=heard.error)
    if heard.text is not None:
        read = parse_reflection(heard.text, task.report, task.sources, task.creative, task.prompt)
    if read.error is not None:
        return Reflected(error=read.error, unreadable=True, receipt=heard.receipt)
    return Reflected(
        critiques=with_checks(task.report, task.sources, read.critiques),
        suggestions=read.suggestions,
        assembled=assemble(task.report, read.suggestions, task.sources, task.creative),
        receipt=heard.receipt,
    )
