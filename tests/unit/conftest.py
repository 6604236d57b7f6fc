"""A command typed without a server: what it would start, and what it says."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import pytest
import typer

import starter
from commands import follow, reflexion, rows, start

NAMES = (
    "ask", "reflect", "agent", "turn", "reflexion", "retroformer", "train", "batch", "review",
    "settings",
)  # fmt: skip


class Typed(NamedTuple):
    """What became of a command: what it would have started is a run's request, or a list's plan."""

    code: int
    request: Any
    planned: Any
    out: str
    err: str


@cache
def typed_app() -> typer.Typer:
    """The commands that start runs, with all of their options."""
    app = typer.Typer()
    known = {name: said for some in starter.COMMANDS.values() for name, said in some.items()}
    for name in NAMES:
        app.command(name)(getattr(import_module(f"commands.{known[name][0]}"), name))
    return app


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Typed]:
    """Type a command."""
    requests, plans = list[Any](), list[Any]()
    monkeypatch.setattr(starter, "app", typed_app())
    for module in (start, reflexion):
        monkeypatch.setattr(module, "with_client", lambda action: action(None))
    monkeypatch.setattr(follow, "start", lambda _, request, *__: requests.append(request))
    monkeypatch.setattr(rows, "run", lambda _, *planned: plans.append(planned))
    for variable in ("MULL_MODEL", "MULL_JUDGE_MODEL"):
        monkeypatch.delenv(variable, raising=False)

    def run(*words: str) -> Typed:
        requests.clear()
        plans.clear()
        monkeypatch.setattr("sys.argv", ["mull", *words])
        code = starter.main()
        request, plan = ((one or [None])[0] for one in (requests, plans))
        return Typed(code, request, plan, *capsys.readouterr())

    return run
