"""What the program's process tells the sandbox's first process of itself."""

from __future__ import annotations

import errno
import mmap
import os


class Mark:
    """What the program's process says of itself in memory that the first process shares.

    No descriptor leads there, so what writes to all of them, or closes them, changes nothing.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._pid = os.getpid()
        self.code = 0
        self.cause = ""

    def set(self, stage: str, detail: str = "") -> None:
        """Say how far it came; a child of the program says nothing."""
        if os.getpid() != self._pid:
            return
        said = f"{stage} {detail}".encode(errors="replace")[:1_000]
        self._memory[: 2 + len(said)] = len(said).to_bytes(2, "big") + said


def cause_of(error: BaseException) -> str:
    """Name the limit that an error is about, if it is about one."""
    if isinstance(error, MemoryError):
        return "memory"
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    return "full" if full else ""
