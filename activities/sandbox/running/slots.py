"""How many programs run at once, and a user id for each that nobody else has."""

import asyncio
import os
import pwd
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from activities.sandbox.port import SandboxError
from reflection.multipath.request import Limits

# Below 65,536, which is all that many containers map, and above what distributions give away.
FIRST_UID = 62_000
UIDS = 500
MIB = 2**20


class Slots:
    """Room for so many runs at once; more wait."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[int | None]:
        """Wait for room; give a user id that is free on this machine, or None without the right."""
        async with self._room:
            if os.geteuid() != 0:
                yield None
                return
            with _free_uid() as uid:
                yield uid


def most_at_once(ceiling: Limits) -> int:
    """Return how many runs fit at the ceiling: two a core, and half of the memory there is."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    fitting = memory // 2 // (ceiling.memory_mb + ceiling.disk_mb)
    return max(1, min(2 * (os.cpu_count() or 1), fitting))


@contextmanager
def _free_uid() -> Iterator[int]:
    """Claim a user id by a name that the kernel frees with the process, among all workers here."""
    # Workers in other containers see no name of ours, and the kernel counts a user's processes
    # over all of them: each begins elsewhere.
    begin = Path("/proc/self/ns/net").stat().st_ino
    for uid in (FIRST_UID + (begin + step) % UIDS for step in range(UIDS)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with claim:
            try:
                claim.bind(f"\0mull-sandbox-uid-{uid}")
            except OSError:
                continue
            if not _is_known(uid):
                yield uid
                return
    raise SandboxError(f"no user id from {FIRST_UID} to {FIRST_UID + UIDS - 1} is free")


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
