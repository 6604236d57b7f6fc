"""Writing code, repairing it, and writing tests for it."""

from datetime import UTC, datetime

from activities.agent.receipt import AgentTask, Heard, Replied, hear
from activities.agent.writing import Generated, WritingTask, options
from activities.language_model import LanguageModel
from reflection.multipath.cases import parse_tests, tests_schema
from reflection.multipath.code_prompts import (
    build_code_prompt,
    build_repair_prompt,
    build_tests_prompt,
)
from reflection.multipath.extraction import extract_code
from reflection.multipath.suite import Case, Failure, Suite
from reflection.quoting import AGAIN
from reflection.size import encoded_size

NO_CODE = "NoCode: there is no Python code in the reply"


class CodeTask(WritingTask):
    """Code to write; with `code` and its `failure`, code to repair.

    `error` is what was wrong with the last reply to the same.
    """

    suite: Suite | None
    entry: str | None
    code: str | None = None
    failure: Failure | None = None
    error: str | None = None


class TestsTask(AgentTask):
    """Tests to write before any code; `error` is what was wrong with the last reply."""

    __test__ = False

    entry: str | None
    seed: int
    error: str | None = None


class Tests(Replied):
    """The tests that the model wrote, and the function that they call."""

    __test__ = False

    cases: tuple[Case, ...] = ()
    entry: str | None = None


async def generate_code(model: LanguageModel, task: CodeTask) -> Generated:
    """Ask once for code, or for better code, and take it out of the reply."""
    prompt = _prompt(task)
    if task.error is not None:
        prompt += AGAIN.replace("{error}", task.error)
    heard = await hear(model, "generate_code", task, prompt, **options(task))
    code, error = _code(heard, task)
    return Generated(
        text=code,
        error=error,
        unreadable=code is None and heard.text is not None,
        cut=heard.receipt.finish_reason == "length",
        receipt=heard.receipt,
        timestamp=datetime.now(UTC),
    )


async def write_tests(model: LanguageModel, task: TestsTask) -> Tests:
    """Ask once for tests, and read them."""
    prompt = build_tests_prompt(task.prompt, task.entry, task.error)
    more = {"reply_schema": tests_schema(), "seed": task.seed}
    heard = await hear(model, "write_tests", task, prompt, **more)
    if heard.text is None:
        return Tests(error=heard.error, unreadable=True, receipt=heard.receipt)
    read = parse_tests(heard.text, task.entry)
    return Tests(
        cases=read.cases,
        entry=read.entry,
        error=read.error,
        unreadable=read.error is not None,
        receipt=heard.receipt,
    )


def _prompt(task: CodeTask) -> str:
    if task.code is None or task.failure is None:
        return build_code_prompt(task.prompt, task.sources, task.suite, task.entry)
    return build_repair_prompt(
        task.prompt, task.sources, task.code, task.failure, task.suite, task.entry
    )


def _code(heard: Heard, task: CodeTask) -> tuple[str | None, str | None]:
    """Return the code of a reply, or why there is none: code that is cut is none."""
    if heard.text is None:
        return None, heard.error
    code = extract_code(heard.text, task.entry)
    if code is None:
        return None, NO_CODE
    if encoded_size(code) > task.output_bytes:
        return None, f"NoCode: the code is over {task.output_bytes:,} bytes"
    return code, None
