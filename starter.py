"""The command line: starts runs, watches them, and steers them."""

import typer

from commands import runs, updates
from commands.doctor import command as doctor
from commands.local import dev
from commands.measuring import calibrate, compare, replay
from commands.session import end_process, wrong_usage
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
    runs,
    updates,
    replay,
    calibrate,
    compare,
    doctor,
    dev,
):
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


if __name__ == "__main__":
    end_process(main())
