"""The measuring commands for tests: run in-process, without a server."""

import typer
from typer.testing import CliRunner, Result

from commands.measuring import calibrate, compare


def run(*arguments: str) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    for each in (calibrate, compare):
        each.register(app)
    clean = {"COLUMNS": "100", "MULL_MODEL": "", "MULL_JUDGE_MODEL": ""}
    return CliRunner().invoke(app, list(arguments), env=clean)
