"""Watching what a run takes, and naming the limit that it went over."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from activities.sandbox.port import Status
from activities.sandbox.running.backend import Disk
from activities.sandbox.running.threads import Threads
from activities.sandbox.watching import tree, unseen
from reflection.multipath.request import Limits

SECONDS = 0.04
MIB = 2**20
# A file system may run out of names long before it runs out of bytes, at the kernel's expense.
FILES_PER_MIB = 256
# A fork is seen by its limit in the kernel; where that does not bind, at so many times the limit.
TASKS_SLACK = 2


@dataclass
class Watch:
    """The most that was seen so far of one run's processes."""

    limits: Limits
    disk: Callable[[int], Disk]
    threads: Threads
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    shared_before: int = field(default_factory=unseen.shared_memory)

    async def until_over(self, first: int) -> Status:
        """Measure again and again, until a limit is passed, and say which."""
        while True:
            await asyncio.sleep(SECONDS)
            if over := await self.threads.call(self.measure, first):
                return over

    def measure(self, first: int) -> Status | None:
        """Measure once what the descendants of the first process take."""
        now = tree.taken(first)
        self.cpu_seconds = max(self.cpu_seconds, now.cpu_seconds)
        memory = self._memory(now.memory_bytes, first)
        self.memory_bytes = max(self.memory_bytes, memory)
        if memory > self.limits.memory_mb * MIB or now.tasks > TASKS_SLACK * self.limits.processes:
            return "memory_limit"
        if self._takes_unseen(first):
            return "memory_limit"
        if now.cpu_seconds >= self.limits.cpu_seconds:
            return "cpu_limit"
        return "disk_limit" if self.is_full(first) else None

    def _memory(self, resident: int, first: int) -> int:
        """Count shared pages once, only where it matters: that takes the kernel longer."""
        if resident <= self.memory_bytes:
            return resident
        return min(resident, tree.shared_out(first))

    def _takes_unseen(self, first: int) -> bool:
        """Whether it takes memory that is nobody's, or may take what can't be seen."""
        below = tree.descendants(first)
        if unseen.is_any_hidden(below) or unseen.has_too_many_queues(below):
            return True
        most = self.limits.memory_mb * MIB + unseen.SLACK_BYTES
        grown = unseen.shared_memory() - self.shared_before
        return grown > most and unseen.is_sharing(first, below)

    def is_full(self, first: int) -> bool:
        """Whether its files take more than they may; also after its end, where they outlast it."""
        try:
            used = self.disk(first)
        except OSError:
            return False
        limit = self.limits.disk_mb
        return used.size > limit * MIB or used.files > limit * FILES_PER_MIB
