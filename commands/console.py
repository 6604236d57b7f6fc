"""What every command says the same way: errors in one line on standard error."""

import os
import sys
from typing import NoReturn

import typer


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong on standard error and end with this exit code."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code)


def wrong_usage(error: typer.TyperException) -> int:
    """Say on one line what is mistyped, and where help is; return the exit code."""
    said = error.format_message().rstrip(".")
    # Without arguments the help is shown, and there is nothing more to say.
    if said:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "starter.py"
        typer.echo(f"Error: {said}. `{command} --help` says more.", err=True)
    return error.exit_code


def end_process(code: int) -> NoReturn:
    """Leave at once with this exit code, once everything is written.

    The interpreter's own shutdown crashes now and then while the SDK's threads end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
