"""What a program must not reach: listeners, files and secrets of the worker, and its processes."""

import asyncio
import ctypes
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from activities.sandbox.watcher import children, has_ended

SECRET = "CANARY-7d1f"
_SUBREAPER = 36


class Canaries:
    """Listeners on every kind of address, and a secret in a file, each with a name of its own."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._name = f"canary_{uuid.uuid4().hex[:12]}"
        self.file = folder / "canary_secret.txt"
        self.file.write_text(SECRET)
        self._path = folder / "canary.sock"
        self._tcp = self._bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self._port: int = self._tcp.getsockname()[1]
        self._unix = self._bound(socket.AF_UNIX, socket.SOCK_STREAM, str(self._path))
        self._abstract = self._bound(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self._name}")
        self._datagram = self._bound(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self._name}_datagram")

    @property
    def substitutes(self) -> dict[str, str]:
        """What stands in the hostile programs, and what is here in its place."""
        return {
            "17233": str(self._port),
            "settimeout(1.5)": "settimeout(0.2)",
            "sbx_canary": self._name,
            "/tmp/canary.sock": str(self._path),  # noqa: S108 - the programs' own words
            "/tmp/canary_secret.txt": str(self.file),  # noqa: S108 - the programs' own words
        }

    def faults(self) -> tuple[str, ...]:
        """Return who was reached."""
        accepting = {"tcp": self._tcp, "unix": self._unix, "abstract": self._abstract}
        receiving = {"datagram": self._datagram}
        return (
            *(f"{name} connected" for name, each in accepting.items() if _accepts(each)),
            *(f"{name} received" for name, each in receiving.items() if _receives(each)),
        )

    def close(self) -> None:
        """Stop listening."""
        self._stack.close()

    def _bound(self, family: int, kind: int, address: object) -> socket.socket:
        made = self._stack.enter_context(socket.socket(family, kind))
        made.setblocking(False)
        made.bind(address)  # type: ignore[arg-type] # a name or a pair, by its family
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made


def _accepts(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _receives(listener: socket.socket) -> bool:
    try:
        listener.recv(10)
    except BlockingIOError:
        return False
    return True


def runs(process: int) -> bool:
    """Tell whether a process has not ended, as a zombie has."""
    with suppress(OSError):
        return not has_ended(Path(f"/proc/{process}"))
    return False


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is overlooked."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below one, zombies too."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def open_descriptors() -> set[str]:
    """Return the descriptors of this process, each with what it leads to."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{each.name} {each.readlink()}")
    return found


async def left_open(before: set[str], seconds: float = 1.0) -> set[str]:
    """Return the descriptors that are still open after so many seconds, and were not before."""
    until = time.monotonic() + seconds
    while (left := open_descriptors() - before) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return left


def ipc_objects() -> set[str]:
    """Return the shared memory, queues and semaphores that no process has to hold."""
    folder = Path("/proc/sysvipc")
    return {
        f"{kind} {line.split()[1]}"
        for kind in ("shm", "msg", "sem")
        for line in (folder / kind).read_text().splitlines()[1:]
    }
