"""A command's input, from files, standard input and options, and the files that it writes."""

import os
import re
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from commands.options import option_of
from commands.session import Exit, fail
from reflection.run import Frozen, explain
from reflection.text import well_formed

# The field that an error names, the wrong part of it, and an index in a list.
FIELD = re.compile(r"(^|; )([a-z_]+)(?:\.([a-z_]+))?(?:\.\d+)?: ")


def read_stdin(what: str) -> str:
    """Read all of standard input as UTF-8; `what` names it in the error if it is not."""
    try:
        return typer.get_binary_stream("stdin").read().decode("utf-8")
    except UnicodeDecodeError:
        fail(f"{what} on standard input is not UTF-8 text.", Exit.USAGE)


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
        fail(f"{option}: {path} is not UTF-8 text.", Exit.USAGE)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "not a valid file name"
        fail(f"{option}: {path} can't be read: {said}.", Exit.USAGE)


def place_for(option: str, path: Path) -> Path:
    """Return the absolute path of a file to write, or exit with an error if it can't be written."""
    whole = path.resolve()
    if whole.is_dir():
        fail(f"{option}: {path} is a folder.", Exit.USAGE)
    if not whole.parent.is_dir():
        fail(f"{option}: there is no folder {whole.parent}.", Exit.USAGE)
    if not os.access(whole if whole.exists() else whole.parent, os.W_OK):
        fail(f"{option}: {path} can't be written.", Exit.USAGE)
    return whole


def write_file(path: Path, text: str, what: str = "page", instead: str = "") -> None:
    """Write a file as UTF-8 and say so, or exit with an error and what to do `instead`."""
    try:
        path.write_bytes(well_formed(text).encode())
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}.{instead}", Exit.FAILED)
    typer.echo(f"wrote the {what} to {path}", err=True)


def checked(kind: type[Frozen], fields: dict[str, Any], option: str | None = None) -> Any:
    """Build a model from the fields that are set, or exit with an error.

    The error names the option that the field comes from, or `option` if all come from that one.
    """
    try:
        return kind(**{name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        said = explain(error)
        if option is None:
            said = FIELD.sub(lambda at: f"{at[1]}{_named(at[3] or at[2])}: ", said)
        fail(f"{option}: {said}." if option else f"{said}.", Exit.USAGE)


def _named(field: str) -> str:
    """Return the argument or option that a request's field comes from."""
    return field if field in {"question", "query", "prompt", "answer"} else option_of(field)
