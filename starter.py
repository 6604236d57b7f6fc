"""The command line: starts runs, watches them, and steers them."""

import typer

from commands.console import end_process
from commands.local import dev
from commands.measuring import replay
from commands.runs import listing, reporting, showing, steering
from commands.starting import ask

app = typer.Typer(
    name="mull",
    help="Durable, self-critical LLM answers: sampling until convergence, as Temporal workflows.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for command in (ask, showing, steering, listing, reporting, replay, dev):
    command.register(app)


def main() -> int:
    """Run a command, and return its exit code."""
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


if __name__ == "__main__":
    end_process(main())
