"""A test that hangs fails, and says what it waits for; it can't hold up the others for ever."""

import asyncio
import faulthandler
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.patience import MOST_SECONDS


def _stacks(interrupted: FrameType | None) -> Iterator[str]:
    """Describe where each task of the event loop waits, and then each thread."""
    if asyncio._get_running_loop():
        for task in asyncio.all_tasks():
            yield f"{task.get_name()}:\n"
            awaited: Any = task.get_coro()
            while frame := getattr(awaited, "cr_frame", None):
                yield from traceback.format_list(traceback.extract_stack(frame, 1))
                awaited = awaited.cr_await
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for identity, top in sys._current_frames().items():
        yield f"{names.get(identity, identity)}:\n"
        here = interrupted if identity == threading.get_ident() else top
        yield from traceback.format_stack(here, 12)


def _bounded(item: pytest.Item) -> Generator[None, Any, Any]:
    """End what takes too long by a failure, again and again, and then by the end of the process.

    The last is for what catches every exception, or holds the interpreter's lock: another process
    goes on with the other tests. Each phase has a time of its own, so that a failed test can't hang
    in its fixtures' end either.
    """

    def end(_: int, interrupted: FrameType | None) -> None:
        stacks = "".join(_stacks(interrupted))
        pytest.fail(f"it took more than {MOST_SECONDS:g} s, and waits here:\n{stacks}", False)

    stderr = item.config.stash[fault_handler_stderr_fd_key]
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS, MOST_SECONDS / 10)
    faulthandler.dump_traceback_later(1.5 * MOST_SECONDS, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Bound its fixtures."""
    return (yield from _bounded(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Bound the test."""
    return (yield from _bounded(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Bound the end of its fixtures."""
    return (yield from _bounded(item))
