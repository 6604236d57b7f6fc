"""What every command has: errors, exit codes, a connection, files, and how it is called."""

import asyncio
import inspect
import json
import logging
import os
import re
import shutil
import socket
import sys
import textwrap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial, wraps
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.parse import quote

import typer

from commands.help import COMMON
from mull.text import well_formed

if TYPE_CHECKING:
    from temporalio.client import Client

    from mull.option import Option
    from mull.request import Frozen

# Where a platform mounts secrets as files, unless MULL_SECRETS names another folder.
MOUNTED = "/run/secrets/mull"
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
NEAR = {"localhost", "127.0.0.1", "::1"}


class Exit(IntEnum):
    """The exit codes that scripts rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    BELOW_BAR = 4
    CANCELLED = 5
    DETACHED = 130
    READER_GONE = 141  # as programs end by SIGPIPE, before `head`


def tell(words: str) -> None:
    """Print lines to standard error, in a terminal broken between words: never within an id.

    A line that is indented is a command to copy, and stays whole.
    """
    in_terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns
    for line in words.split("\n"):
        parts = [line]
        if in_terminal and not line.startswith(" "):
            parts = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        sys.stderr.write("\n".join(parts) + "\n")


def fail(message: str, code: int = Exit.USAGE) -> NoReturn:
    """Print an error to standard error and exit with this code."""
    tell(f"Error: {message}")
    raise typer.Exit(code)


def print_json(document: Any) -> None:
    """Print the one document of --json to standard output."""
    sys.stdout.write(json.dumps(document) + "\n")


def print_id(identity: str, *, as_json: bool) -> Exit:
    """Print the id of what was started, which is all that --detach prints."""
    sys.stdout.write((json.dumps({"id": identity}) if as_json else identity) + "\n")
    return Exit.DONE


def wrong_usage(error: typer.TyperException, group: Any) -> int:
    """Print a usage error on one line, with the command for help; return the exit code."""
    said = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    # Without arguments Typer has already printed the help.
    if said:
        context = getattr(error, "ctx", None)
        # The parser's own errors don't name their command.
        commands = getattr(group, "commands", {})
        named = commands.get(next((one for one in sys.argv[1:] if one[:1] != "-"), ""))
        command = context.command if context else named or group
        path = context.command_path if context else f"mull {named.name}" if named else group.name
        end = "" if said.endswith("?") else "."
        wrong = getattr(error, "option_name", None)
        for one in command.params:
            several = one.nargs > 1 and one is getattr(error, "param", None)
            if (several or wrong in one.opts) and not one.is_flag:
                said += f": {one.opts[0]} {one.metavar or 'VALUE'}"
        tell(f"Error: {said}{end} See `{path} --help`.")
    return error.exit_code


def drop_empty_variables() -> None:
    """Unset environment variables that are empty, since some programs take them for values.

    Those that should hold keys are kept, and refused: else nothing would be encrypted. So is an
    empty MULL_MODELS, which lets requests name no other model: else they could name any.
    """
    for name in [name for name, value in os.environ.items() if not value]:
        if name not in {"MULL_ENCRYPTION_KEYS", "MULL_CODEC", "MULL_MODELS"}:
            del os.environ[name]


def read_secrets() -> None:
    """Set a variable from each file in the folder MULL_SECRETS whose name is that of a variable.

    Variables that are set already stay, unless they are empty. A file that can't be read ends the
    process.
    """
    drop_empty_variables()
    path = folder = Path(os.environ.get("MULL_SECRETS", MOUNTED))
    if "MULL_SECRETS" not in os.environ and not os.path.isdir(folder):  # noqa: PTH112 - never raises
        return
    try:
        for path in folder.iterdir():
            if VARIABLE.fullmatch(path.name):
                os.environ.setdefault(path.name, path.read_text("utf-8").strip())
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        tell(f"Error: MULL_SECRETS: {getattr(error, 'filename', None) or path}: {said}.")
        raise SystemExit(Exit.USAGE) from None
    drop_empty_variables()


def end_process(code: int) -> NoReturn:
    """Flush the output, then exit at once with this code.

    The interpreter's own shutdown sometimes crashes while the SDK's threads are ending.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = Exit.READER_GONE
    os._exit(code)


# How long a receiver of spans that hangs may delay the end.
FLUSH_SECONDS = 5.0


def end_after(seconds: float, flush: Callable[[], None]) -> None:
    """End this process so many seconds from now, once it has flushed what it tells others."""

    def end() -> None:
        said = "something can't be evicted or closed, so the worker ends without waiting for it"
        logging.getLogger("mull.worker").critical(said)
        flushing = Thread(target=flush, daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)
        end_process(0)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()


IN_CLEAR = "This command has no keys and sends in the clear, which workers with keys refuse."


def with_client(action: Callable[["Client"], Awaitable[Exit]]) -> NoReturn:
    """Connect, run the action and exit with its code; an error is printed on one line."""
    from pydantic import ValidationError

    from mull import telemetry
    from mull.connection import chosen_codec, connect, translated
    from mull.errors import MullError
    from mull.keys import UnreadableError

    async def session() -> Exit:
        telemetry.set_up(None)
        with translated():
            return await action(await connect(quiet=True))

    try:
        code = asyncio.run(session())
    except MullError as error:
        end = "\n" if error.exit_code == Exit.UNREACHABLE else " "
        in_clear = isinstance(error.__cause__, UnreadableError) and chosen_codec() is None
        advice = IN_CLEAR if in_clear else error.advice
        fail(f"{error.fact}.{end}{advice}".rstrip(), error.exit_code)
    except ValidationError:
        fail("This workflow was not started by Mull.")
    except KeyboardInterrupt:
        raise typer.Exit(Exit.DETACHED) from None
    raise typer.Exit(code)


def connected(command: Callable[..., Awaitable[Exit]]) -> Callable[..., None]:
    """Make a command of a coroutine whose first argument is a client."""

    @wraps(command)
    def called(**given: Any) -> None:
        with_client(lambda client: command(client, **given))

    own = inspect.signature(command)
    kept = list(own.parameters.values())[1:]
    called.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
    return called


async def need_workers(
    client: "Client", queues: tuple[str, ...], what: str, *, waits: bool = False
) -> None:
    """Name the queues that no worker polls and how to start one; exit unless `what` can wait."""
    from mull.connection import unserved
    from mull.errors import no_worker

    if missing := await unserved(client, queues):
        error = no_worker(missing)
        if not waits:
            raise error
        tell(f"Note: {error.fact}; the {what} waits for a worker.")


def run_page(workflow_id: str, run_id: str | None) -> str | None:
    """Return the address of a run in the Web UI, or None if no Web UI is known.

    MULL_WEB_UI sets it. Otherwise a development server's Web UI is looked for 1,000 ports above
    the server's own.
    """
    from mull.connection import address, namespace

    base = os.environ.get("MULL_WEB_UI") or _beside(address())
    if not base:
        return None
    place = f"{base.rstrip('/')}/namespaces/{quote(namespace(), safe='')}/workflows"
    # A browser follows dots even if they are quoted.
    if not run_id or workflow_id in {".", ".."}:
        return place
    return f"{place}/{quote(workflow_id, safe='')}/{quote(run_id, safe='')}/history"


def _beside(server: str) -> str | None:
    host, _, port = server.rpartition(":")
    if host not in NEAR or not port.isdigit() or int(port) + 1_000 > 65_535:
        return None
    beside = int(port) + 1_000
    try:
        with socket.create_connection((host, beside), timeout=0.3):
            return f"http://{host}:{beside}"
    except OSError:
        return None


# An option without a value, for which the help of mull-worker would show a type.
flag = partial(typer.Option, metavar="")
Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]
NewId = Annotated[
    str | None,
    typer.Option("--id", help="The workflow's id. If its run is done, print the result again."),
    COMMON,
]
Again = Annotated[bool, flag("--again", help="Start anew, even if the run is done.")]
Detach = Annotated[bool, flag("--detach", help="Return the id at once."), COMMON]
AcceptAny = Annotated[
    bool, flag("--accept-any", help="Exit with code 0 although the result is doubtful.")
]
BatchId = Annotated[str | None, typer.Option("--id", help="The batch's id."), COMMON]
Yes = Annotated[bool, flag("--yes", help="Start without asking.")]
Json = Annotated[bool, flag("--json", help="Print one JSON document."), COMMON]


def options_of(request: "type[Frozen]") -> "dict[str, Option]":
    """List the fields of a request that are options."""
    from mull.option import Option

    declared = {name: field.json_schema_extra for name, field in request.model_fields.items()}
    return {name: option for name, option in declared.items() if isinstance(option, Option)}


def option_of(request: "type[Frozen]", field: str) -> str:
    """Return the option for a request's field, or for a field of a part of it."""
    declared = options_of(request).get(field)
    return (declared and declared.flag) or f"--{field.replace('_', '-')}"


# The field that an error names, the wrong part of it, and an index in a list.
FIELD = re.compile(r"(^|; )([a-z_]+)(?:\.([a-z_]+))?(?:\.\d+)?: ")
# The fields that come from a command's argument and not from an option.
ARGUMENTS = {"question", "query", "prompt", "message", "answer"}


def read_stdin(what: str) -> str:
    """Read all of standard input as UTF-8; `what` names it in the error if it is not."""
    try:
        return typer.get_binary_stream("stdin").read().decode("utf-8")
    except UnicodeDecodeError:
        fail(f"{what} on standard input is not UTF-8 text.")


def read_given(option: str, given: str) -> str:
    """Read the file that an option names, or standard input for `-`."""
    if given == "-":
        return read_stdin(f"the text for {option}")
    return read_file(option, Path(given))


def read_file(option: str, path: Path) -> str:
    """Read a file as UTF-8, or exit with an error."""
    try:
        # Line endings are kept: a draft comes back exactly as it was given.
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        fail(f"{option}: {path} is not UTF-8 text.")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "not a valid file name"
        fail(f"{option}: {path} can't be read: {said}.")


def place_for(option: str, path: Path) -> Path:
    """Return the absolute path of a file to write, or exit with an error if it can't be written."""
    whole = path.resolve()
    if whole.is_dir():
        fail(f"{option}: {path} is a folder.")
    if not whole.parent.is_dir():
        fail(f"{option}: there is no folder {whole.parent}.")
    if not os.access(whole if whole.exists() else whole.parent, os.W_OK):
        fail(f"{option}: {path} can't be written.")
    return whole


def write_file(path: Path, text: str, what: str = "page", instead: str = "") -> None:
    """Write a file as UTF-8 and say so, or exit with an error and what to do `instead`."""
    try:
        path.write_bytes(well_formed(text).encode())
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}.{instead}", Exit.FAILED)
    tell(f"wrote the {what} to {path}")


def checked(kind: "type[Frozen]", fields: dict[str, Any], option: str | None = None) -> Any:
    """Build a model from the fields that are set, or exit with an error.

    The error names the option that the field comes from, or `option` if all come from that one.
    """
    from pydantic import ValidationError

    from mull.request import explain

    def named(at: re.Match[str]) -> str:
        field = at[3] or at[2]
        return f"{at[1]}{field if field in ARGUMENTS else option_of(kind, field)}: "

    try:
        return kind(**{name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        said = explain(error)
        fail(f"{option}: {said}." if option else f"{FIELD.sub(named, said)}.")


def called_with(
    command: Callable[..., None],
    tuples: Mapping[str, Callable[..., Any]],
    taken: Mapping[str, Sequence[str]],
    readers: Mapping[str, Callable[[Any], Any]],
) -> Callable[..., None]:
    """Have a command called with tuples of the options `taken`, and with the fields of a request.

    What follows `__` in an option's parameter is not part of its field's name.
    """

    @wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: kind(**{option: given.pop(option) for option in taken[name]})
            for name, kind in tuples.items()
        }
        fields: dict[str, Any] = {}
        given.pop("help_all", None)
        for name, value in given.items():
            field, _, end = name.partition("__")
            if value is not None or field not in fields:
                fields[field] = False if end == "off" and value else value
        for name, read in readers.items():
            value = fields.get(name)
            fields[name] = None if value is None else read(value)
        command(**made, **fields)

    return called
