"""Measure a stopping rule, a judge or a method on your own data."""

from collections.abc import Collection
from importlib import import_module

import typer

COMMANDS = {
    "replay": "Replay recorded answers through the stopping rules, to choose one for your data.",
    "calibrate": "Measure how good a judge is, on drafts that people have labelled.",
    "compare": "Compare one draft, reflection and self-consistency on the same questions.",
}


def register(app: typer.Typer, wanted: Collection[str]) -> None:
    """Add the commands to the command line; only the `wanted` ones are imported."""
    for name, said in COMMANDS.items():
        if name in wanted:
            module = import_module(f"commands.measuring.{name}")
            app.command(name, help=f"{said}\n\n{module.HELP}")(getattr(module, name))
        else:
            app.command(name, help=said)(_not_imported)


def _not_imported() -> None:
    """Stand in for a command that is not needed."""
