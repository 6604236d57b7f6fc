"""The command line: start runs, watch them and steer them."""

import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from commands.command import Exit, end_process, read_secrets, wrong_usage

app = typer.Typer(
    name="mull",
    help="Durable, self-critical LLM answers, as Temporal workflows: sampling until convergence,"
    " reflection on a result, an agent that researches or codes, turns with tools, and agents that"
    " learn from their failures.",
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


# Each command's module, and what `mull --help` says of it: how its docstring, its help, begins.
COMMANDS = {
    "ask": ("start", "Ask a question and sample until the answers converge."),
    "reflect": ("start", "Write a draft, judge it, and revise it while its score is low."),
    "agent": ("start", "Research documents or write code, until nothing is open."),
    "turn": ("turn", "Answer a message with tools, and reflect midway."),
    "reflexion": ("reflexion", "Try a task in episodes, and reflect on each that fails."),
    "retroformer": ("retroformer", "As reflexion, with trained reflections."),
    "train": ("retroformer", "Train reflections on what they gain in an environment."),
    "memory": ("reflexion", "Show or clear a memory that runs of reflexion share."),
    "batch": ("batch", "Run a command on every line of a file."),
    "show": ("runs", "Show a run: its result, or where it stands."),
    "watch": ("runs", "Follow a run live until it ends; Ctrl-C detaches and never cancels."),
    "list": ("runs", "List runs, newest first, with how each one ended."),
    "report": ("runs", "Write a page about a finished run: curves, decisions and cost."),
    "traces": ("traces", "Rebuild the spans of a run from its history, to show or send them."),
    "review": ("updates", "Show a result that waits for a person, or decide on it."),
    "finish": ("updates", "End a run with what it has, and cancel the calls in flight."),
    "cancel": ("updates", "Cancel a run and its calls in flight; it ends without a result."),
    "add": ("updates", "Add an answer of your own to a run, as the next vote."),
    "doctor": ("doctor", "Check an installation, and say what to do about each problem."),
    "codec": ("codec", "Decrypt payloads for Temporal's Web UI and command line."),
    "register": ("register", "Register Mull's search attributes in the namespace."),
    "dev": ("embedded", "Run Temporal with its Web UI, and a worker, until Ctrl-C."),
    "replay": (
        "measuring.replay",
        "Replay recorded answers through the stopping rules, to choose one for your data.",
    ),
    "calibrate": (
        "measuring.calibrate",
        "Measure how good a judge is, on drafts that people have labelled.",
    ),
    "compare": (
        "measuring.compare",
        "Compare one draft, reflection and self-consistency on the same questions.",
    ),
}
# Shell completion needs the options of every command; else only the one that is typed is imported.
completes = any(name.endswith("_COMPLETE") for name in os.environ)
wanted = set(COMMANDS) if completes else set(sys.argv)
for name, (place, said) in COMMANDS.items():
    if name not in wanted:
        app.command(name, help=said)(lambda: None)
        continue
    try:
        module = import_module(f"commands.{place}")
    except KeyboardInterrupt:
        sys.exit(130)
    command = getattr(module, "list_" if name == "list" else name)
    kind = module.WithMerge if name == "train" else None
    app.command(name, cls=kind)(command)


def main() -> int:
    """Run a command, and return its exit code; a usage error is printed on one line."""
    read_secrets()
    try:
        code = app(prog_name="mull", standalone_mode=False)
    except typer.TyperException as error:
        return wrong_usage(error, typer.main.get_command(app))
    except typer.Abort:
        return 130
    except SystemExit as ended:
        gone = isinstance(ended.__context__, BrokenPipeError)
        code = Exit.READER_GONE if gone else ended.code
    return code if isinstance(code, int) else int(code is not None)


def run() -> None:
    """Run the command `mull`."""
    end_process(main())


if __name__ == "__main__":
    run()
