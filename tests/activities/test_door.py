"""A model's address that takes no connection, in virtual time: one call knocks, the others wait."""

import asyncio

import httpx
import pytest
from aiohttp import ClientConnectorError, ClientOSError
from aiohttp.client_reqrep import ConnectionKey

from activities.language_model.exchange import EXCHANGE, Exchange, bounded
from activities.language_model.layers import PacedModel
from activities.language_model.port import (
    ModelCall,
    ModelReply,
    NotYetError,
    PermanentModelError,
    UnreachableError,
)
from tests.activities.scripted_calls import call
from tests.activities.test_pace import virtually
from tests.scripted import reply

MOST = 5
CLOSED = "5 connections failed: nothing listens at a:1"
PLACE = ConnectionKey("a", 1, False, False, None, None, None)


class Address:
    """Refuses connections until it opens, in seconds; `hangs` are those of a refused one."""

    def __init__(self, opens: float, hangs: float = 0.001, latency: float = 0.5) -> None:
        self.opens, self.hangs, self.latency = opens, hangs, latency
        self.refused: list[float] = []
        self.taken: list[float] = []

    async def complete(self, _: ModelCall) -> ModelReply:
        now = asyncio.get_running_loop().time()
        if now < self.opens:
            self.refused.append(now)
            await asyncio.sleep(self.hangs)
            raise UnreachableError("nothing listens at a:1", "a:1")
        self.taken.append(now)
        await asyncio.sleep(self.latency)
        return reply("fine")


class Local(Address):
    """Refuses connections; a call with 99 attempts fails before it is sent."""

    async def complete(self, asked: ModelCall) -> ModelReply:
        if asked.max_attempts != 99:
            return await super().complete(asked)
        error = PermanentModelError("no such form")
        error.answered = False
        raise error


async def attempts(
    model: PacedModel, name: str | None = None, most: int = MOST
) -> tuple[float, str]:
    """Make a call as Temporal would, and return when it ended, and how."""
    while True:
        try:
            said = (await model.complete(call(model=name, max_attempts=most))).text
        except NotYetError as error:
            await asyncio.sleep(error.retry_after or 0)
            continue
        except (UnreachableError, PermanentModelError) as error:
            said = str(error)
        return asyncio.get_running_loop().time(), said


async def together(address: Address, calls: int, names: int = 1) -> list[tuple[float, str]]:
    model = PacedModel(address)
    return await asyncio.gather(*(attempts(model, f"m{n % names}") for n in range(calls)))


@pytest.fixture(autouse=True)
def one_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is of an activity of its own, over all its attempts."""
    monkeypatch.setattr("activities.language_model.layers._caller", asyncio.current_task)


@pytest.mark.parametrize(
    ("calls", "names", "hangs", "refused", "seconds"),
    [
        (1, 1, 0.001, MOST, 16),
        (32, 1, 0.001, MOST, 16),
        # Some are told to come later, before it is known that nothing listens.
        (300, 1, 0.001, MOST + 4, 60),
        # Each name is refused once or so before it is known where it leads.
        (40, 4, 0.001, MOST + 4, 60),
        # A name that takes long not to be found is not asked for by everybody each time.
        (5, 1, 7.0, 4 * MOST, 120),
    ],
)
def test_a_closed_door_is_knocked_on_by_one(
    calls: int, names: int, hangs: float, refused: int, seconds: float
) -> None:
    """Each knock counts for all: five are made, whoever waits, and then every call ends."""
    address = Address(opens=float("inf"), hangs=hangs)

    ended = virtually(together(address, calls, names))

    assert len(address.refused) <= refused
    assert {said for _, said in ended} == {CLOSED}
    assert len(ended) == calls
    assert max(at for at, _ in ended) < seconds


def test_when_the_door_opens_all_go_on() -> None:
    """No call is lost to an outage of 14 s, and nobody waits for the knock's own reply."""
    address = Address(opens=14, latency=60)

    ended = virtually(together(address, 50))

    assert {said for _, said in ended} == {"fine"}
    assert len(address.refused) <= 4
    assert sorted(address.taken)[1] < 14 + 8 + 5 + 1


def test_what_was_never_sent_opens_no_door() -> None:
    """A call that fails before it is sent tells nothing of the address, and the count goes on."""

    async def work() -> tuple[list[tuple[float, str]], int]:
        address = Local(opens=float("inf"), hangs=0.5)
        model = PacedModel(address)
        with pytest.raises(UnreachableError):
            await model.complete(call(max_attempts=1))
        local = [asyncio.create_task(attempts(model, most=99)) for _ in range(3)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(120):
            ended = await asyncio.gather(*(attempts(model) for _ in range(20)))
        assert [(await one)[1] for one in local] == ["no such form"] * 3
        return ended, len(address.refused)

    ended, refused = virtually(work())

    assert refused <= MOST
    assert {said for _, said in ended} == {CLOSED}


def broken(system: OSError) -> httpx.ConnectError:
    """Return what LiteLLM's adapter makes of an error of aiohttp."""
    error = httpx.ConnectError(str(system))
    error.__cause__ = system
    return error


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [
        (ClientConnectorError(PLACE, OSError(111, "refused")), True),
        (ClientOSError(32, "Broken pipe"), False),
        (ClientOSError(110, "Connection timed out"), False),
    ],
)
async def test_a_connection_that_was_made_is_no_closed_door(
    error: OSError, unreachable: bool
) -> None:
    """One that breaks later may have carried a call that is paid for."""

    async def send(_: httpx.Request) -> httpx.Response:
        raise broken(error)

    exchange = Exchange()
    token = EXCHANGE.set(exchange)
    with pytest.raises(httpx.ConnectError):
        await bounded(httpx.Request("POST", "http://a:1/v1", content=b"{}"), send)
    EXCHANGE.reset(token)

    assert (exchange.unreachable is not None) is unreachable


def test_a_cancelled_knock_leaves_the_door_to_another() -> None:
    """The next call that waits knocks in its place."""

    async def work() -> str:
        address = Address(opens=0.5)
        model = PacedModel(address)
        with pytest.raises(UnreachableError):
            await model.complete(call(max_attempts=1))
        first, second = (asyncio.create_task(attempts(model)) for _ in range(2))
        await asyncio.sleep(1.2)
        first.cancel()
        return (await second)[1]

    assert virtually(work()) == "fine"
