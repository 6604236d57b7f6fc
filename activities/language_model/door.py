"""The address of a model. Where nothing listens, one call at a time tries it, others wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from activities.language_model.port import UnreachableError
from reflection.text import tally_words

# The wait after the first refused connection, which doubles, up to the longest one.
FIRST_KNOCK_SECONDS, LONGEST_KNOCK_SECONDS = 1.0, 8.0
# A connection that is not refused so soon was made: the reply to it may take minutes. Where one was
# refused later than that, it takes twice as long to be taken for made.
LET_IN_SECONDS = 5.0
# The first call of all tells almost at once whether anything listens: others wait for it so long.
FIRST_SECONDS = 1.0


class Door:
    """An address. Where it takes no connection, one call at a time knocks, and the others wait.

    What is refused counts for every call that waits, with what was refused just before it came.
    Any answer opens the door for all.
    """

    def __init__(self) -> None:
        self.refusal: UnreachableError | None = None
        self._known = False
        # When connections were refused since it was open; a call takes at most 100 attempts.
        self._refused: deque[float] = deque(maxlen=200)
        self._next = float("-inf")
        self._knocking: float | None = None
        self._let_in = LET_IN_SECONDS
        # When each call came first: it may leave in the meantime, and come again.
        self._came: dict[object, float] = {}
        self._news = asyncio.Event()

    @asynccontextmanager
    async def passed(
        self, caller: object, came: float, most: int, patience: float
    ) -> AsyncIterator[bool]:
        """Wait until a call may be sent, which is made in the block; yield whether it knocks.

        Raises UnreachableError once `most` were refused, and TimeoutError after the patience.
        """
        async with asyncio.timeout(patience):
            while not (knocks := self._may_knock(caller, came, most)) and self._wait() > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._wait()):
                        await self._news.wait()
        try:
            yield knocks
        finally:
            if knocks:
                self._knocking = None
                self._tell()

    @property
    def closed(self) -> bool:
        """True while no call may be sent but the one that knocks."""
        return self.refusal is not None and (self._knocking is None or self._wait() > 0)

    def _wait(self) -> float:
        """Return the seconds until the next call may be sent if there is no news."""
        if self._known and self.refusal is None:
            return 0.0
        if self._knocking is None:
            return self._next - _now()
        return self._knocking + (self._let_in if self._known else FIRST_SECONDS) - _now()

    def _may_knock(self, caller: object, came: float, most: int) -> bool:
        """Tell whether this call is the one that knocks now. Raises UnreachableError."""
        if self.refusal is not None:
            self._give_up(self.refusal, caller, came, most)
        elif self._known:
            return False
        if self._knocking is not None or self._wait() > 0:
            return False
        # Until it is sent, which LiteLLM's first call takes a while for, more time is allowed.
        self._knocking = _now() + LET_IN_SECONDS
        return True

    def _give_up(self, refusal: UnreachableError, caller: object, came: float, most: int) -> None:
        """Raise UnreachableError if this call has seen enough refusals."""
        came = self._came.setdefault(caller, came)
        just_before = any(came - LONGEST_KNOCK_SECONDS <= at < came for at in self._refused)
        refused = just_before + sum(at >= came for at in self._refused)
        if refused >= most:
            del self._came[caller]
            line = f"{tally_words(refused, 'connection')} failed: {refusal}"
            raise UnreachableError(line, refusal.address, last=True)

    def refused(self, error: UnreachableError, began: float) -> None:
        """Note a refused connection; those that began before the last one say the same."""
        if self._refused and began <= self._refused[-1]:
            return
        now, wait = _now(), FIRST_KNOCK_SECONDS * 2.0 ** min(len(self._refused), 10)
        self.refusal, self._known = error, True
        self._next = now + min(wait, LONGEST_KNOCK_SECONDS)
        self._let_in = max(self._let_in, 2 * (now - began))
        self._refused.append(now)
        if self._knocking is not None:
            self._knocking = now
        self._tell()

    def sent(self) -> None:
        """Note that the call that knocks is on its way."""
        if self._knocking is not None:
            self._knocking = _now()
            self._tell()

    def answered(self, began: float) -> None:
        """Note an answer: the door is open, unless a later call was refused."""
        if not self._known or (self._refused and began > self._refused[-1]):
            self.refusal, self._known = None, True
            self._refused.clear()
            self._came.clear()
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _now() -> float:
    return asyncio.get_running_loop().time()
