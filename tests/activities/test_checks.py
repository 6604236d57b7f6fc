"""What reads a text for long is in a process of its own: it can be ended, and delays nobody."""

import asyncio
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activities import checks
from activities.checks import SHORT_BYTES, CheckTask, check_draft, read_apart
from mull.critique import guardrails
from mull.critique.forms import read
from mull.critique.guardrails import Checked, Report, check
from tests.patience import Stopwatch, patiently
from tests.unit.test_speed import EVERY, taken

ENDLESS = "(a|a)*b"


def quit_at_once() -> None:
    """Not an exception, but the end of the process."""
    sys.exit(3)


async def slowest_turn(work: "asyncio.Future[Any]") -> float:
    """The longest time in seconds for which the event loop did not turn, until the work is done."""
    slowest = 0.0
    while not work.done():
        watch = Stopwatch()
        await asyncio.sleep(0.01)
        slowest = max(slowest, watch.seconds)
    return slowest


async def test_a_pattern_that_never_ends_is_ended_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller is told after the limit; meanwhile everything else goes on, and the next works."""
    monkeypatch.setattr(checks, "SECONDS", 2.0)
    work = asyncio.ensure_future(read_apart(re.match, ENDLESS, "a" * 40))

    delayed = await slowest_turn(work)

    assert delayed < 1
    with pytest.raises(RuntimeError, match="after 2 seconds at the latest"):
        await work
    assert await read_apart(str.upper, "a") == "A"


async def test_a_long_draft_delays_nobody() -> None:
    """The guardrails take seconds for this one, and the event loop goes on."""
    draft = "[a](" * 25_000
    checked = Checked(query=draft, draft=draft, previous=draft, sources=(draft,))
    task = CheckTask(checked=checked, guardrails=("default",))
    work = asyncio.ensure_future(check_draft(task))

    delayed = await slowest_turn(work)

    assert delayed < 1
    assert (await work).failures == ()


@pytest.mark.parametrize(
    ("draft", "more", "apart"),
    [
        ("a " * 900, {}, False),
        ("a " * 1_100, {}, True),
        ("½" * 1_100, {}, True),
        ("a " * 600, {"previous": "b " * 600}, True),
        ("a " * 600, {"sources": ("b " * 300, "c " * 300)}, True),
        ("a " * 600, {"material": ("b " * 300, "c " * 300)}, True),
        ("a " * 600, {"query": "b " * 600}, True),
    ],
)
async def test_only_short_texts_are_checked_in_the_worker(
    draft: str, more: dict[str, Any], apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the guardrails read counts: over 2,000 bytes it goes to a process."""
    calls = list[object]()

    async def apart_read(_: object, *inputs: object) -> Report:
        calls.append(inputs)
        return Report()

    monkeypatch.setattr(checks, "read_apart", apart_read)
    checked = Checked(**{"query": "Why?", "draft": draft, **more})

    await check_draft(CheckTask(checked=checked, guardrails=("default",)))

    assert bool(calls) == apart


@pytest.mark.parametrize("piece", ["½", "[", "{", "[1,", "a: [", "@a\n", "it is. ", "a|b\n-|-\n"])
def test_the_worst_short_text_delays_by_milliseconds(piece: str) -> None:
    """What is checked in the worker takes about 5 ms, so at most 25 on a busy machine."""
    text = (piece * SHORT_BYTES)[: SHORT_BYTES // len(piece.encode()) * len(piece)]
    query = "Write it in YAML: a list as JSON, a table, a function in Python."

    def check_it() -> None:
        read.cache_clear()
        check(Checked(query=query, draft=text, asks_for=EVERY), ["default"])

    assert min(taken(check_it) for _ in range(5)) < 0.025


@pytest.mark.parametrize(
    ("call", "said"), [((int, "x"), "ValueError: invalid"), ((quit_at_once,), "could not be read")]
)
async def test_what_fails_there_fails_here(call: tuple[object, ...], said: str) -> None:
    """An exception, and the end of the process, are errors of the call alone."""
    with pytest.raises(RuntimeError, match=said):
        await read_apart(*call)  # type: ignore[arg-type]  # a function and its inputs


async def test_no_key_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment, where keys are, is not passed on."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for reader in checks._idle:
        reader.kill()
        reader.communicate()
    checks._idle.clear()

    assert "secret" not in await read_apart(Path.read_text, Path("/proc/self/environ"))


CALLER = """
import asyncio, os, re, signal, sys, threading
from activities import checks

checks.SECONDS = 1.0
asyncio.run(checks.read_apart(str.upper, "a"))
print(checks._idle[0].pid, flush=True)
"""
BUSY = f"""
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
checks._call(re.match, ({ENDLESS!r}, "a" * 40))
"""


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(0)", BUSY])
def test_readers_end_with_who_started_them(root: Path, end: str) -> None:
    """However a process ends, in the midst of a call too, its readers do, without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", CALLER + end],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    reader = Path("/proc", done.stdout.strip(), "cmdline")
    assert done.stderr == ""
    for _ in patiently(0.02):
        if not (reader.exists() and reader.read_bytes()):
            return
    pytest.fail("its reader is still there")


OWN = "tests.activities.own_guardrails"


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's guardrails, which are registered in this process for one test alone."""
    monkeypatch.setattr(guardrails, "_GUARDRAILS", {**guardrails._GUARDRAILS})
    monkeypatch.delitem(sys.modules, OWN, raising=False)
    importlib.import_module(OWN)


async def reported(draft: str, *names: str) -> Report:
    found = Checked(query="How much is it?", draft=draft)
    return await check_draft(CheckTask(checked=found, guardrails=names))


@pytest.mark.usefixtures("_registered")
async def test_a_user_s_guardrail_is_run() -> None:
    """It caps a draft beside the default ones, and one that raises is named."""
    found = await reported("It costs $ 5, and so it is cheap.", "default", "no_prices", "broken")

    assert [cap.guardrail for cap in found.caps] == ["no_prices"]
    assert found.failures == ("guardrail broken failed: ZeroDivisionError",)


@pytest.mark.usefixtures("_registered")
async def test_a_guardrail_that_never_ends_is_ended_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report says that it could not be run, and other runs of the worker went on."""
    await reported("warm", "no_prices")
    monkeypatch.setattr(checks, "SECONDS", 2.0)
    work = asyncio.ensure_future(reported("a" * 40, "endless"))

    delayed = await slowest_turn(work)

    assert delayed < 1
    [said] = (await work).failures
    assert said.startswith("the guardrails could not be run: the text could not be read: ")


@pytest.mark.usefixtures("_registered")
async def test_a_guardrail_of_a_module_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report says which module is missing, and how guardrails are run."""
    monkeypatch.setattr(guardrails._GUARDRAILS["no_prices"], "__module__", "gone_rules")

    [said] = (await reported("It costs $ 5.", "no_prices")).failures

    assert said == (
        "the guardrails could not be run: ModuleNotFoundError: No module named 'gone_rules'; "
        "they run in a process of their own, without the worker's variables"
    )
