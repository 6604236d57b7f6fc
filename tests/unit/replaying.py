"""The command `replay` for tests: a file of recorded answers, and the command run in-process."""

from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from commands.measuring import replay

UNANIMOUS = '{"id": 1, "gold": "4", "answers": ["4", "4", "4", "4", "4", "4", "4", "4", "4", "4"]}'


def run(*arguments: str) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    replay.register(app)
    return CliRunner().invoke(app, ["replay", *arguments], env={"COLUMNS": "100"})


def written(folder: Path, *lines: str) -> str:
    file = folder / "answers.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)
