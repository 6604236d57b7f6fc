"""Quick local activities: look up settings, check drafts by rules, and read a prompt's examples.

They are not workflow code, so that rules can change while a run is open: history keeps the results.

One of four processes reads a text that may take long, and is ended if it takes too long. A thread
would not do: a slow pattern holds the interpreter's lock, which stops every other run.
"""

import asyncio
import atexit
import os
import pickle
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, TypeVar, cast

from temporalio import activity

from mull.critique.criteria import Criterion, complexity
from mull.critique.guardrails import (
    OF_MULL,
    Checked,
    Report,
    check,
    known_guardrails,
    modules_of,
    named_guardrails,
)
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.cases import entry_in, entry_of
from mull.multipath.extraction import examples
from mull.multipath.suite import Case
from mull.request import Record
from mull.text import encoded_size, terminal_safe

# Mull's own guardrails check any text of this size in 5 ms, so they need no other process.
SHORT_BYTES = 2_000
READERS = 4
SECONDS = 5.0
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from activities.checks import serve; serve()"

Result = TypeVar("Result")
_threads = ThreadPoolExecutor(READERS, thread_name_prefix="mull-readers")
_idle: list[Popen[bytes]] = []


class Prepared(Record):
    """The criteria and guardrails of a run, fixed when it starts.

    `complexity` is the query's, 0 to 1, as given or estimated. `unknown` are the guardrails that
    the request names and this worker lacks, `guardrails` the others, each by its own name.
    """

    complexity: float
    criteria: tuple[Criterion, ...]
    unknown: tuple[str, ...] = ()
    guardrails: tuple[str, ...] = ()


class CheckTask(Record):
    """A draft, the texts that guardrails may read with it, and the guardrails to run."""

    checked: Checked
    guardrails: tuple[str, ...]


@activity.defn
async def prepare_reflection(request: ReflectOnResultRequest) -> Prepared:
    """Estimate the query's complexity, and look up the criteria and the guardrails."""
    known = known_guardrails()
    given = request.complexity
    return Prepared(
        complexity=complexity(request.query) if given is None else given,
        criteria=request.judged_by,
        unknown=tuple(name for name in request.guardrails if name not in known),
        guardrails=named_guardrails(request.guardrails),
    )


@activity.defn
async def check_draft(task: CheckTask) -> Report:
    """Run the named guardrails, and report those that fail.

    Long texts, and guardrails that are not Mull's own, are checked in a process that is ended after
    five seconds.
    """
    checked = task.checked
    given = (*checked.sources, *checked.material)
    texts = (checked.query, checked.draft, checked.previous or "", *given)
    names = named_guardrails(task.guardrails)
    if OF_MULL.issuperset(names) and sum(map(encoded_size, texts)) <= SHORT_BYTES:
        return check(checked, names)
    try:
        return await read_apart(_check, modules_of(names), checked, names)
    except RuntimeError as error:
        apart = "they run in a process of their own, without the worker's variables"
        said = f"the guardrails could not be run: {terminal_safe(str(error), 200)}; {apart}"
        return Report(failures=(said,))


def _check(modules: tuple[str, ...], checked: Checked, names: tuple[str, ...]) -> Report:
    for module in modules:
        import_module(module)
    return check(checked, names)


class ExamplesTask(Record):
    """A prompt, the function it asks for if the request names one, and the user's tests."""

    prompt: str
    entry: str | None
    tests: str | None = None


class Examples(Record):
    """The calls in the prompt with their values, and the function it asks for."""

    cases: tuple[Case, ...]
    entry: str | None = None


@activity.defn
async def read_examples(task: ExamplesTask) -> Examples:
    """Read the examples in a prompt, unless the user has tests.

    The entry is the request's, or the function that the prompt leaves to be written, or the one
    that all its examples call.
    """
    return await read_apart(_read, task)


def _read(task: ExamplesTask) -> Examples:
    entry = task.entry or entry_in(task.prompt)
    if task.tests is not None:
        return Examples(cases=(), entry=entry)
    cases = examples(task.prompt, entry)
    return Examples(cases=cases, entry=entry or entry_of(cases))


async def read_apart(work: Callable[..., Result], *inputs: object) -> Result:
    """Call a function of a module in one of four processes, for at most five seconds.

    Raises RuntimeError if the function raises, or takes longer.
    """
    return await asyncio.get_running_loop().run_in_executor(_threads, _call, work, inputs)


def _call(work: Callable[..., Result], inputs: tuple[object, ...]) -> Result:
    try:
        reader = _idle.pop()
    except IndexError:
        command = [sys.executable, "-c", PROGRAM, *sys.path]
        # A session of its own, since Ctrl-C is for the worker; and no keys in its environment.
        reader = Popen(command, stdin=PIPE, stdout=PIPE, env={}, start_new_session=True)  # noqa: S603 - our own program
    try:
        calls, replies = cast("IO[bytes]", reader.stdin), cast("IO[bytes]", reader.stdout)
        pickle.dump((work, inputs, SECONDS), calls)
        calls.flush()
        value, error = pickle.load(replies)  # noqa: S301 - from our own process
    except (OSError, EOFError):
        reader.communicate()
        ended = f"its process ended, after {SECONDS:g} seconds at the latest"
        raise RuntimeError(f"the text could not be read: {ended}") from None
    _idle.append(reader)
    if error is not None:
        raise RuntimeError(error)
    return cast("Result", value)


@atexit.register
def _end() -> None:
    """End the idle processes; if this one is killed, they end with their input."""
    while _idle:
        _idle.pop().communicate()


def serve() -> None:
    """Answer calls on standard input until it ends; redirect what they print to standard error.

    Each call's time-out runs in this process, so that it ends even when its caller is gone.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(OSError):
        # If memory runs out, the kernel ends this process first, and not the worker.
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    while True:
        try:
            work, inputs, seconds = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the worker
        except EOFError:
            return
        reply: tuple[Any, str | None]
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            reply = work(*inputs), None
        except Exception as error:
            reply = None, f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        pickle.dump(reply, replies)
        replies.flush()
