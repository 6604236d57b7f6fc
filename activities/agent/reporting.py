"""Writing a report, refining it, and reflecting on it."""

from datetime import UTC, datetime

from activities.agent.receipt import AgentTask, Replied, hear
from activities.agent.writing import Generated, WritingTask, options
from activities.language_model import LanguageModel
from reflection.multipath.markup import unwrapped
from reflection.multipath.reflections import parse_reflection, reflection_schema
from reflection.multipath.report import assemble, with_checks
from reflection.multipath.report_prompts import (
    build_refinement_prompt,
    build_reflection_prompt,
    build_report_prompt,
)
from reflection.multipath.result import Source
from reflection.multipath.state import Critique
from reflection.plain import well_formed
from reflection.size import cut_encoded


class ReportTask(WritingTask):
    """A report to write; with `report`, its `critiques` and `suggestions`, one to refine."""

    report: str | None = None
    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    creative: bool = True


class ReflectionTask(AgentTask):
    """A report to reflect on; `error` is what was wrong with the last reply to the same.

    `model` reflects, else the worker's judge, else the `writer`.
    """

    index: int
    sources: tuple[Source, ...]
    report: str
    creative: bool
    error: str | None = None
    writer: str | None = None


class Reflected(Replied):
    """K: what is to be mended, by the rules and by the model, and what might be added.

    `assembled` is the report as it is given out, with these suggestions.
    """

    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    assembled: str | None = None


async def generate_report(model: LanguageModel, task: ReportTask) -> Generated:
    """Ask once for a report, or for a better one."""
    heard = await hear(model, "generate_report", task, _prompt(task), **options(task))
    written = None if heard.text is None else unwrapped(well_formed(heard.text))
    text = None if written is None else cut_encoded(written, task.output_bytes)
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


async def reflect_on_report(model: LanguageModel, task: ReflectionTask) -> Reflected:
    """Ask once what is wrong with a report, and check by rules what needs no model."""
    prompt = build_reflection_prompt(
        task.prompt, task.sources, task.report, task.creative, task.error
    )
    schema = reflection_schema(task.creative)
    heard = await hear(model, "reflect_on_report", task, prompt, reply_schema=schema)
    if heard.text is None:
        return Reflected(error=heard.error, unreadable=True, receipt=heard.receipt)
    read = parse_reflection(heard.text, task.report, task.sources, task.creative, task.prompt)
    if read.error is not None:
        return Reflected(error=read.error, unreadable=True, receipt=heard.receipt)
    return Reflected(
        critiques=with_checks(task.report, task.sources, read.critiques),
        suggestions=read.suggestions,
        assembled=assemble(task.report, read.suggestions, task.sources, task.creative),
        receipt=heard.receipt,
    )


def _prompt(task: ReportTask) -> str:
    if task.report is None:
        return build_report_prompt(task.prompt, task.sources, task.creative)
    return build_refinement_prompt(
        task.prompt, task.sources, task.report, task.critiques, task.creative
    )
