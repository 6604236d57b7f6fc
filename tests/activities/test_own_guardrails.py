"""A user's own guardrails run where Mull's do: in a process that can be ended."""

import asyncio
import importlib
import sys

import pytest

from activities import checks
from activities.checks import CheckTask, check_draft
from mull.critique import guardrails
from mull.critique.guardrails import Checked, Report
from tests.activities.test_checks import slowest_turn

OWN = "tests.activities.own_guardrails"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are registered in this process for one test alone."""
    monkeypatch.setattr(guardrails, "_GUARDRAILS", {**guardrails._GUARDRAILS})
    monkeypatch.delitem(sys.modules, OWN, raising=False)
    importlib.import_module(OWN)


async def checked(draft: str, *names: str) -> Report:
    found = Checked(query="How much is it?", draft=draft)
    return await check_draft(CheckTask(checked=found, guardrails=names))


async def test_one_of_a_module_is_run() -> None:
    """It caps a draft beside the default ones, and one that raises is named."""
    found = await checked("It costs $ 5, and so it is cheap.", "default", "no_prices", "broken")

    assert [cap.guardrail for cap in found.caps] == ["no_prices"]
    assert found.failures == ("guardrail broken failed: ZeroDivisionError",)


async def test_one_that_never_ends_is_ended_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report says that it could not be run, and other runs of the worker went on."""
    await checked("warm", "no_prices")
    monkeypatch.setattr(checks, "SECONDS", 2.0)
    work = asyncio.ensure_future(checked("a" * 40, "endless"))

    delayed = await slowest_turn(work)

    assert delayed < 1
    [said] = (await work).failures
    assert said.startswith("the guardrails could not be run: the text could not be read: ")


async def test_one_of_a_module_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report says which module is missing, and how guardrails are run."""
    monkeypatch.setattr(guardrails._GUARDRAILS["no_prices"], "__module__", "gone_rules")

    [said] = (await checked("It costs $ 5.", "no_prices")).failures

    assert said == (
        "the guardrails could not be run: ModuleNotFoundError: No module named 'gone_rules'; "
        "they run in a process of their own, without the worker's variables"
    )
