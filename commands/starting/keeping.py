"""A result as a file: whole or not at all."""

import os
import shutil
import uuid
from pathlib import Path

from commands.console import fail
from commands.session import Exit
from reflection.text import well_formed


def place_for(option: str, path: Path) -> Path:
    """Return where a file shall go; a place where none can be is one line, before work begins."""
    whole = path.resolve()
    if whole.is_dir():
        fail(f"{option}: {path} is a folder.", Exit.USAGE)
    if not whole.parent.is_dir():
        fail(f"{option}: there is no folder {whole.parent}.", Exit.USAGE)
    if not os.access(whole if whole.exists() else whole.parent, os.W_OK):
        fail(f"{option}: {path} can't be written.", Exit.USAGE)
    return whole


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole, or as it was before. Raises OSError.

    A device or a pipe is written to as it is.
    """
    data = well_formed(text).encode()
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    beside = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex[:8]}")
    try:
        beside.write_bytes(data)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise type(error)(error.errno, error.strerror, str(path)) from None
