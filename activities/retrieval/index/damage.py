"""What is wrong with an index, or with the disk that it is on.

DamagedError        the index can't be opened, read or written: it is built anew
StoppedError        whoever asked does not want to know any more
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEAST_FREE_BYTES = 16_000_000
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})


class DamagedError(Exception):
    """The index can't be opened or read: it is built anew."""


class StoppedError(Exception):
    """Whoever asked does not want to know any more."""


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
    """Whatever tantivy raises of an index, its panics too, means that it is damaged."""
    try:
        yield
    except (DamagedError, StoppedError):
        raise
    except Exception as error:
        raise DamagedError(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DamagedError(str(error)) from error
