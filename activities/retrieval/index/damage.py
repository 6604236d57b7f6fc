"""What is wrong with an index, or with the machine that it is on.

DamagedError        the index can't be opened, read or written: it is built anew
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from activities.retrieval.threads import StoppedError

LEAST_FREE_BYTES = 16_000_000
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
# What the process may have of, or the machine: no file is to blame for it.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# How the engine writes the number of a system's error.
NUMBER = re.compile(r"\bcode: (\d+)|\(os error (\d+)\)")


class DamagedError(Exception):
    """The index can't be opened or read: it is built anew."""


def unwritable(error: BaseException, place: Path) -> str | None:
    """Say why nothing can be written at a place, if that is what an error comes from.

    The engine's own threads tell nobody which error of the system it was.
    """
    known: BaseException | None = error
    while known is not None:
        if isinstance(known, OSError) and (known is error or known.errno in UNWRITABLE):
            return known.strerror
        known = known.__cause__ or known.__context__
    full = place.exists() and shutil.disk_usage(place).free < LEAST_FREE_BYTES
    return os.strerror(errno.ENOSPC) if full else None


@contextmanager
def damage() -> Iterator[None]:
    """Whatever tantivy raises of an index, its panics too, means that it is damaged.

    Raises DamagedError; but OSError where the process may open no more files, or the like.
    """
    try:
        yield
    except (DamagedError, StoppedError):
        raise
    except Exception as error:
        raise _named(error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _named(error) from error


def _named(error: BaseException) -> OSError | DamagedError:
    number = _number(error) or 0
    if number in EXHAUSTED:
        return OSError(number, os.strerror(number))
    return DamagedError(str(error))


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    said = NUMBER.search(str(error))
    return int(said[1] or said[2]) if said else None
