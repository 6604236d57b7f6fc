"""The command line: start runs, watch them and steer them."""

import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from commands import dev, measuring, runs, updates
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
        try:
            said = version("mull")
        except PackageNotFoundError:
            said = "from a checkout, not installed"
        typer.echo(f"mull {said}")
        raise typer.Exit


@app.callback()
def mull(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Define the options of `mull` itself."""


def _not_imported() -> None:
    """Stand in for a command that is not needed."""


STARTS = {
    "ask": "Ask a question and sample until the answers converge.",
    "reflect": "Write a draft, judge it, revise it while its score is low, and print the best one.",
    "agent": "Research documents or write code: draft, check, and revise until nothing is open.",
}
# Shell completion needs the options of every command.
completes = any(name.endswith("_COMPLETE") for name in os.environ)
wanted = {*STARTS, *measuring.COMMANDS} if completes else set(sys.argv)
for name, said in STARTS.items():
    # Options come from requests, which are slow to import.
    if name in wanted:
        start = import_module("commands.start")
        app.command(name, help=f"{said}\n\n{start.HELP[name]}")(getattr(start, name))
    else:
        app.command(name, help=said)(_not_imported)
app.command()(runs.show)
app.command()(runs.watch)
app.command("list")(runs.list_runs)
app.command()(runs.report)
app.command(help=updates.HELP)(updates.review)
app.command()(updates.finish)
app.command()(updates.cancel)
app.command()(updates.add)
measuring.register(app, wanted)
app.command(help=doctor.HELP)(doctor.doctor)
app.command()(dev.dev)


def main() -> int:
    """Run a command, and return its exit code; a usage error is printed on one line."""
    try:
        code = app(prog_name="mull", standalone_mode=False)
    except typer.TyperException as error:
        return wrong_usage(error)
    except typer.Abort:
        return 1
    except SystemExit as ended:
        code = ended.code
    return code if isinstance(code, int) else int(code is not None)


def run() -> None:
    """Run the command `mull`."""
    end_process(main())


if __name__ == "__main__":
    run()
