"""The client without async: for scripts, threads and notebooks, inside a running event loop too.

All calls of a process share one event loop, in a thread of its own, and one client, which is made
anew where the environment says that another server is meant.
"""

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from mull import connection
from mull.client import Client, request_of
from mull.loops import LOOPS

__all__ = ("agent", "ask", "batch", "reflect", "reflexion", "turn")

GivenP = ParamSpec("GivenP")
Value = TypeVar("Value")

ABOUT = """{}

    An `id` makes a call that can be repeated: the same run is found again, unless `again` starts it
    anew. With `check` a result that is not to be built on is an error. For the fields see
    help(mull.keywords.{}).
"""

# The variables by which a client is made.
PREFIXES = ("TEMPORAL_", "MULL_")
# How long calls under way have to be cancelled in.
ENDING_SECONDS = 5.0


class _Background:
    """An event loop in a thread that ends with the process, and the client that lives there."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget the loop and the client."""
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread
        self._connecting: asyncio.Lock
        self._settings: Mapping[str, str] | None = None
        self._client: Client

    def run(self, work: Callable[[Client], Coroutine[Any, Any, Value]]) -> Value:
        """Run what a client is needed for, and wait for it. Ctrl-C ends the wait alone."""
        future = asyncio.run_coroutine_threadsafe(self._connected(work), self._started())
        try:
            return future.result()
        finally:
            future.cancel()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop, self._connecting = asyncio.new_event_loop(), asyncio.Lock()
                run = self._loop.run_forever
                self._thread = threading.Thread(target=run, name="mull", daemon=True)
                self._thread.start()
            return self._loop

    def end(self) -> None:
        """Cancel the calls under way and end the loop, before the interpreter is taken down.

        The SDK's threads may otherwise wait for the interpreter for ever, and it for them.
        """
        with self._starting:
            if (loop := self._loop) is None:
                return
            asyncio.run_coroutine_threadsafe(self._cancel_all(), loop)
            self._thread.join(ENDING_SECONDS)
            if not self._thread.is_alive():
                loop.close()
                self._loop = None

    async def _cancel_all(self) -> None:
        loop = asyncio.get_running_loop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING_SECONDS / 2)
        loop.stop()

    async def _connected(self, work: Callable[[Client], Coroutine[Any, Any, Value]]) -> Value:
        async with self._connecting:
            found = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
            if found != self._settings:
                self._client = Client(await connection.connect(quiet=True))
                self._settings = found
            client = self._client
        return await work(client)


_background = _Background()
atexit.register(_background.end)
if hasattr(os, "register_at_fork"):
    # A process that is forked has no thread that runs its parent's loop.
    os.register_at_fork(after_in_child=_background.begin_anew)


def _blocking(
    method: Callable[Concatenate[Client, GivenP], Coroutine[Any, Any, Value]],
) -> Callable[GivenP, Value]:
    """Make a function of a client's method, which connects by itself and waits."""
    own = inspect.signature(method)
    kind = next(loop.request for loop in LOOPS if loop.command == method.__name__)

    @wraps(method)
    def called(*given: GivenP.args, **fields: GivenP.kwargs) -> Value:
        # A request that is refused needs no server.
        asked = own.bind(None, *given, **fields).arguments
        request_of(kind, asked[kind.subject_field], asked.get("fields", {}))
        return _background.run(lambda client: method(client, *given, **fields))

    *parameters, rest = list(own.parameters.values())[1:]
    # As a class, not unpacked, its name is what `help` shows.
    named = get_args(rest.annotation)[0]
    parameters.append(rest.replace(annotation=named))
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__doc__ = ABOUT.format(method.__doc__, named.__name__)
    return called


ask = _blocking(Client.ask)
reflect = _blocking(Client.reflect)
agent = _blocking(Client.agent)
turn = _blocking(Client.turn)
reflexion = _blocking(Client.reflexion)
batch = _blocking(Client.batch)
