"""The command line: start runs, watch them and steer them."""

import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from commands.command import Exit, end_process, read_secrets, wrong_usage
from commands.help import Command, Group

app = typer.Typer(
    name="mull",
    cls=Group,
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


# The commands by what a person wants: the module of each, and how its docstring, its help, begins.
COMMANDS = {
    "Ask": {
        "ask": ("start", "Ask until the answers agree: for what has one right answer."),
        "turn": ("turn", "Answer a message with tools, alone or in a conversation."),
        "batch": ("batch", "Run a command on every line of a file, within a budget."),
    },
    "Improve a text": {
        "reflect": ("start", "Write or take a draft, judge it, and revise it while it is weak."),
    },
    "Let an agent work": {
        "agent": ("start", "Write a report from documents, or code that passes its tests."),
        "reflexion": ("reflexion", "Try a task again and again, and learn from each failure."),
        "retroformer": ("retroformer", "As reflexion, with reflections that training improved."),
        "train": ("retroformer", "Train reflections on what they gain in an environment."),
        "memory": ("memories", "Show or clear a memory that runs of reflexion share."),
    },
    "Look and steer": {
        "list": ("runs", "List runs, newest first: to find an id, or what waits for you."),
        "show": ("runs", "Show a run: its result, or where it stands."),
        "watch": ("runs", "Follow a run live until it ends; Ctrl-C never cancels it."),
        "page": ("page", "Serve a page: see runs, follow them, review and start them."),
        "report": ("runs", "Write a page about a finished run: curves, decisions and cost."),
        "review": ("updates", "Show or decide on a result or call that waits for a person."),
        "add": ("updates", "Add an answer of your own to a run of `ask`, as the next vote."),
        "finish": ("updates", "End a run with what it has, and cancel the calls in flight."),
        "cancel": ("updates", "Cancel a run and its calls in flight; it ends without a result."),
        "traces": ("traces", "Rebuild a run's spans from its history, to show or send them."),
    },
    "Measure": {
        "replay": (
            "measuring.replay",
            "Try the stopping rules on recorded answers, to choose one.",
        ),
        "calibrate": (
            "measuring.calibrate",
            "Measure how good a judge is, on drafts that people labelled.",
        ),
        "compare": (
            "measuring.compare",
            "Compare one draft, reflection and sampling on your questions.",
        ),
    },
    "Run it": {
        "dev": ("embedded", "Run Temporal with its Web UI, a worker and the page, until Ctrl-C."),
        "doctor": ("doctor", "Check an installation, and say what to do about each problem."),
        "settings": ("profile", "Print what files set for commands, and where each value is from."),
        "register": ("register", "Register Mull's search attributes in the namespace."),
        "serve": ("http.serve", "Serve OpenAI's interface, so that its clients ask by runs."),
        "mcp": ("mcp", "Offer ask, reflect, agent and show as tools, to a client of MCP."),
        "codec": ("codec", "Decrypt payloads for Temporal's Web UI and command line."),
    },
}
# Shell completion needs the options of every command; else only the one that is typed is imported.
completes = any(name.endswith("_COMPLETE") for name in os.environ)
for heading, commands in COMMANDS.items():
    for name, (place, said) in commands.items():
        if not completes and name not in sys.argv:
            app.command(name, help=said, rich_help_panel=heading)(lambda: None)
            continue
        try:
            module = import_module(f"commands.{place}")
        except KeyboardInterrupt:
            sys.exit(130)
        command = getattr(module, "list_" if name == "list" else name)
        kind = module.WithMerge if name == "train" else Command
        app.command(name, cls=kind, rich_help_panel=heading)(command)


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
