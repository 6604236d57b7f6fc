"""The command line: starts runs, watches them, and steers them."""

import typer

from commands.console import end_process
from commands.doctor import command as doctor
from commands.local import dev
from commands.measuring import calibrate, compare, replay
from commands.runs import listing, reporting, reviewing, showing, steering
from commands.starting import agent, ask, reflect

app = typer.Typer(
    name="mull",
    help="Durable, self-critical LLM answers, as Temporal workflows: sampling until convergence,"
    " reflection on a result, and an agent that researches or codes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for command in (
    ask,
    reflect,
    agent,
    showing,
    reviewing,
    steering,
    listing,
    reporting,
    replay,
    calibrate,
    compare,
    doctor,
    dev,
):
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
