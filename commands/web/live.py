"""Runs while people look at them: one watcher for each run, however many pages show it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from hashlib import sha256
from typing import Any, NamedTuple

from commands.follow import NOBODY, slow
from commands.terminal import LOST
from mull import MullError, Run, RunCancelledError, RunFailedError
from mull.news import Change, News
from mull.sheet import WAITS

# The least time between two updates of a page.
APART_SECONDS = 0.5
# After so long without news the server is asked what the run's calls wait for.
BEAT_SECONDS = 5.0
# A page is loaded first, and asks for its events then: one watcher stays for both.
LINGER_SECONDS = 2.0
AGAIN_SECONDS = 1.0
END = b"event: ended\ndata: \n\n"
BEAT = b": \n\n"
OWN_ERROR = "This page made an error, which its log tells of; it tries again"
logger = logging.getLogger("mull.page")


class View(NamedTuple):
    """What is known of a run: its newest `record`, and the `text` of an answer while it is written.

    `note` says why the run is silent, or what it waits for; `error` says how it ended without a
    result.
    """

    record: Any = None
    text: str = ""
    note: str = ""
    error: RunFailedError | RunCancelledError | None = None
    ended: bool = False


class Drawn(NamedTuple):
    """What a view looks like, with its name; equal views have the same one."""

    html: str
    name: str
    ended: bool

    @property
    def event(self) -> bytes:
        """The server-sent event that brings it to a page."""
        lines = "".join(f"data: {line}\n" for line in self.html.splitlines())
        return f"id: {self.name}\n{lines}\n".encode()


def drawn(html: str, view: View) -> Drawn:
    """Name what a view looks like."""
    return Drawn(html, sha256(html.encode()).hexdigest()[:16], view.ended)


class Watcher:
    """Watches one run for all who look at it: each change is drawn once.

    `draw` makes HTML of the run's request, which is None if it can't be read, and a view, in a
    thread of its own.
    """

    def __init__(self, run: Run[Any], draw: Callable[[Any, View], str]) -> None:
        self.lookers, self._over = 0, False
        self._run, self._draw, self._view = run, draw, View()
        self._newest: Drawn | None = None
        self._event, self._changed = b"", asyncio.Event()
        self._request: Any = None
        self._task = asyncio.create_task(self._watch())

    async def newest(self, known: str = "") -> Drawn:
        """Return what the run looks like now, once that is not what is `known` by its name.

        Raises TimeoutError if the watcher is ended before.
        """
        while (now := self._newest) is None or (now.name == known and not now.ended):
            if self._over:
                raise TimeoutError
            await self._changed.wait()
        return now

    async def events(self, known: str = "") -> AsyncGenerator[bytes, None]:
        """Yield an event for each change until the run ends; a slow reader gets only the newest."""
        while True:
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    now = await self.newest(known)
            except TimeoutError:
                if self._over:
                    return
                # Proxies close a connection on which nothing comes.
                yield BEAT
                continue
            if now.name != known:
                known = now.name
                yield self._event
            if now.ended:
                yield END
                return

    def end(self) -> None:
        """Stop watching, and let those go who still look."""
        self._over = True
        self._task.cancel()
        self._changed.set()

    async def _watch(self) -> None:
        while not self._view.ended:
            try:
                self._request = self._request or await self._run.request()
                await self._follow()
                continue
            except (RunFailedError, RunCancelledError) as error:
                view = View(self._view.record, error=error, ended=True)
            except MullError as error:
                view = self._view._replace(note=f"{error}")
            except Exception as error:
                # Its message may have words of the run.
                logger.error("%s", type(error).__name__)  # noqa: TRY400
                view = self._view._replace(note=OWN_ERROR)
            # What can't be drawn is tried again: this task would take the error's words to the log.
            with suppress(Exception):
                await self._show(view)
            await asyncio.sleep(AGAIN_SECONDS * (not self._view.ended))

    async def _follow(self) -> None:
        """Show what is new until the run ends. Raises MullError."""
        streams, silent = getattr(self._request, "stream", False), False
        said = lost = ""
        news = News(
            self._run, streams=streams, apart=APART_SECONDS, at_once=True, beat=BEAT_SECONDS
        )
        async with aclosing(aiter(news)) as coming:
            async for new in coming:
                record = self._view.record if new.record is None else new.record
                text = self._view.text if new.text is None else new.text
                if new.looked:
                    silent, lost = new.record is None, said
                # While the run waits for a person it has no calls.
                if said or (new == Change() and getattr(record, "step", "") not in WAITS):
                    said = await slow(self._run) or ""
                # A lost call may be the only trace of a lost worker.
                news.wanted = said != lost and said.endswith(LOST)
                note = "" if new.ended else NOBODY if silent else said
                await self._show(View(record, text, note, ended=new.ended))

    async def _show(self, view: View) -> None:
        """Draw a view, unless it is shown already, and have no other one for a while."""
        if self._newest and view == self._view:
            return
        new = drawn(await asyncio.to_thread(self._draw, self._request, view), view)
        self._view = view
        if self._newest is None or new != self._newest:
            self._newest, self._event = new, new.event
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            await asyncio.sleep(APART_SECONDS * (not view.ended))


class Watchers:
    """The watchers of the runs that anybody looks at."""

    def __init__(self) -> None:
        self._known: dict[str, Watcher] = {}

    def __len__(self) -> int:
        return len(self._known)

    @asynccontextmanager
    async def watching(
        self, run_id: str, run: Run[Any], draw: Callable[[Any, View], str]
    ) -> AsyncIterator[Watcher]:
        """Look at a run; the first one who does starts its watcher, the last one ends it."""
        watcher = self._known.get(run_id)
        if watcher is None:
            watcher = self._known[run_id] = Watcher(run, draw)
        watcher.lookers += 1
        try:
            yield watcher
        finally:
            watcher.lookers -= 1
            if not watcher.lookers:
                loop = asyncio.get_running_loop()
                loop.call_later(LINGER_SECONDS, self._leave, run_id, watcher)

    def _leave(self, run_id: str, watcher: Watcher) -> None:
        if not watcher.lookers and self._known.get(run_id) is watcher:
            self._known.pop(run_id).end()

    def end(self) -> None:
        """End all of them, as the server ends: browsers come back once there is another one."""
        for watcher in self._known.values():
            watcher.end()
