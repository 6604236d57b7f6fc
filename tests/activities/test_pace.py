"""The pace of calls, in virtual time: storms against endpoints that take so many calls a second."""

import asyncio
import selectors
from collections import deque
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from activities.language_model.layers import Pace, PacedModel
from activities.language_model.port import ModelCall, ModelReply, NotYetError, TransientModelError
from tests.activities.scripted_calls import call
from tests.scripted import reply

Value = TypeVar("Value")
SLOTS = 100


class Skipping(selectors.SelectSelector):
    """Skips the time that a loop would wait."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(0)


def virtually(work: Coroutine[Any, Any, Value]) -> Value:
    """Run in an event loop whose clock goes as fast as the work allows."""
    skipping = Skipping()
    loop = asyncio.SelectorEventLoop(skipping)
    loop.time = lambda: skipping.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class Endpoint:
    """A model that takes so many calls in any second, and refuses the others with 429."""

    def __init__(self, rate: float, latency: float = 0.5, wait: float | None = None) -> None:
        self.rate = rate
        self.latency = latency
        self.wait = wait
        self.taken: list[float] = []
        self.refused: list[float] = []
        self._recent: deque[float] = deque()

    async def complete(self, _: ModelCall) -> ModelReply:
        now = asyncio.get_running_loop().time()
        while self._recent and now - self._recent[0] >= 1:
            self._recent.popleft()
        if len(self._recent) >= self.rate:
            self.refused.append(now)
            await asyncio.sleep(0.01)
            raise TransientModelError("no", "RateLimitError", 429, self.wait)
        self._recent.append(now)
        self.taken.append(now)
        await asyncio.sleep(self.latency)
        return reply("fine")


async def asked(models: list[PacedModel], calls: int) -> None:
    """Make calls until each has its reply, as Temporal would: each in a worker with free slots."""
    slots = [asyncio.Semaphore(SLOTS) for _ in models]

    async def ask(number: int) -> None:
        wait: float | None = 0.0
        while wait is not None:
            await asyncio.sleep(wait)
            worker = number % len(models)
            number += 1
            try:
                async with slots[worker]:
                    await models[worker].complete(call())
                wait = None
            except TransientModelError as error:
                wait = 1.0 if error.retry_after is None else error.retry_after

    await asyncio.gather(*(ask(number) for number in range(calls)))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("wait", [None, 1.0, 5.0])
@pytest.mark.parametrize("latency", [0.05, 0.5, 5.0])
def test_a_storm_wastes_little(workers: int, wait: float | None, latency: float) -> None:
    """20 runs of 10 samples at 5 calls a second: at most a tenth of the calls is refused."""
    endpoint = Endpoint(5, latency, wait)

    virtually(asked([PacedModel(endpoint) for _ in range(workers)], 200))

    assert len(endpoint.taken) == 200
    assert len(endpoint.refused) <= 0.1 * (200 + len(endpoint.refused))
    assert endpoint.taken[-1] < 100


def test_an_endpoint_without_a_limit_is_soon_used_fully() -> None:
    """A worker begins slowly, and has made a thousand calls within 15 seconds."""
    endpoint = Endpoint(float("inf"))

    virtually(asked([PacedModel(endpoint)], 1_000))

    assert len([at for at in endpoint.taken if at < 1]) <= 10
    assert endpoint.taken[-1] < 15


def test_a_worker_that_is_told_to_wait_waits_with_all_its_calls() -> None:
    """After a Retry-After no call is made before its time, whichever run asks."""
    endpoint = Endpoint(5, latency=0.05, wait=7.0)

    virtually(asked([PacedModel(endpoint)], 100))

    first = endpoint.refused[0]
    assert not [at for at in endpoint.taken if first + 0.1 < at < first + 7]


def test_a_long_wait_frees_the_slot() -> None:
    """A call whose turn is far off comes back later, and no call was made for it."""

    async def refused_twice(model: PacedModel) -> float:
        with pytest.raises(TransientModelError):
            await model.complete(call())
        with pytest.raises(NotYetError) as raised:
            await model.complete(call())
        assert raised.value.retry_after is not None
        return raised.value.retry_after

    endpoint = Endpoint(0, wait=30.0)

    assert virtually(refused_twice(PacedModel(endpoint))) == pytest.approx(30, abs=3)
    assert len(endpoint.refused) == 1


def test_the_operators_rate_has_no_burst() -> None:
    """Calls of all models together are apart by the rate's interval, from the first on."""
    endpoint = Endpoint(float("inf"))
    model = PacedModel(endpoint, calls_per_second=4)

    async def both() -> None:
        names = ["a", "b"] * 10
        await asyncio.gather(*(model.complete(call(model=name)) for name in names))

    virtually(both())

    gaps = [later - earlier for earlier, later in pairwise(endpoint.taken)]
    assert len(gaps) == 19
    assert min(gaps) >= 0.25 - 1e-6


def test_calls_of_a_batch_give_way() -> None:
    """Of six that wait one is in line already; a call that comes last begins right after it."""

    async def work() -> list[str]:
        pace, begun = Pace(1.0), list[str]()

        async def begin(name: str, *, yields: bool) -> None:
            await pace.turn(yields=yields)
            begun.append(name)

        batch = [asyncio.create_task(begin(f"batch {n}", yields=True)) for n in range(6)]
        await asyncio.sleep(0.1)
        await asyncio.gather(begin("a person's", yields=False), *batch)
        return begun

    assert virtually(work())[:4] == ["batch 0", "batch 1", "a person's", "batch 2"]
