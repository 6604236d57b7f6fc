"""Processes that read the texts of others, and that are ended where a text takes too long.

A thread would not do: a slow pattern holds the interpreter's lock, and with it every other run.
"""

import asyncio
import atexit
import os
import pickle
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE, Popen
from typing import IO, Any, TypeVar, cast

READERS = 4
SECONDS = 5.0
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from activities.readers import serve; serve()"

Result = TypeVar("Result")
_threads = ThreadPoolExecutor(READERS, thread_name_prefix="mull-readers")
_idle: list[Popen[bytes]] = []


async def read_apart(work: Callable[..., Result], *inputs: object) -> Result:
    """Call a function of a module in one of four processes, for at most five seconds.

    Raises RuntimeError where the function raises, or takes longer.
    """
    return await asyncio.get_running_loop().run_in_executor(_threads, _call, work, inputs)


def _call(work: Callable[..., Result], inputs: tuple[object, ...]) -> Result:
    try:
        reader = _idle.pop()
    except IndexError:
        command = [sys.executable, "-c", PROGRAM, *sys.path]
        # A session of its own, as Ctrl-C is the worker's; and no key in its environment.
        reader = Popen(command, stdin=PIPE, stdout=PIPE, env={}, start_new_session=True)  # noqa: S603 - our own program
    try:
        with_pipes = cast("IO[bytes]", reader.stdin), cast("IO[bytes]", reader.stdout)
        pickle.dump((work, inputs, SECONDS), with_pipes[0])
        with_pipes[0].flush()
        value, error = pickle.load(with_pipes[1])  # noqa: S301 - from our own process
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
    """End the idle ones; where this process is ended without notice, they see no more input."""
    while _idle:
        _idle.pop().communicate()


def serve() -> None:
    """Answer calls on standard input until it ends; what they print goes to standard error.

    The clock of a call is here, so that it ends, too, when its caller is gone.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
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
