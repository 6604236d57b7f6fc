"""The command line: starts runs, watches them, and steers them."""

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from commands import dev, measuring, runs, start, updates
from commands.doctor import command as doctor
from commands.session import end_process, wrong_usage

app = typer.Typer(
    name="mull",
    help="Durable, self-critical LLM answers, as Temporal workflows: sampling until convergence,"
    " reflection on a result, and an agent that researches or codes.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mull {version('mull')}")
        raise typer.Exit


@app.callback()
def mull(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Say what every command takes."""


# A shell that completes a word needs every option, whatever it is that is typed.
completes = any(name.endswith("_COMPLETE") for name in os.environ)
wanted = {"ask", "reflect", "agent", *measuring.COMMANDS} if completes else sys.argv
start.register(app, wanted)
for command in (runs, updates):
    command.register(app)
measuring.register(app, wanted)
for command in (doctor, dev):
    command.register(app)


def main() -> int:
    """Run a command, and return its exit code; what is mistyped is one line."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        return wrong_usage(error)
    except typer.Abort:
        return 1
    except SystemExit as ended:
        code = ended.code
    return code if isinstance(code, int) else int(code is not None)


def run() -> None:
    """Be the command `mull`."""
    end_process(main())


if __name__ == "__main__":
    run()
