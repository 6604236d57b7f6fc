"""The Landlock backend inside: the program gives up its rights, and all that it starts is ended.

The first process keeps signals inside, and ends what the program leaves. The program's process
gives up its rights for good, by Landlock's rules (files, no TCP, no signals out), capabilities, and
a seccomp filter. Standard library only: the sandbox's own Python runs this before the program. The
constants are those of linux/landlock.h, whose three system calls have one number on every
architecture, linux/prctl.h and linux/capability.h.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import struct
from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Settings = dict[str, Any]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE_CHAR, _MAKE_FOLDER, _MAKE_FILE = 3 << 4, 1 << 6, 1 << 7, 1 << 8
_MAKE_SOCKET, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_LINK = 1 << 9, 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE, _DEVICE_COMMANDS = 1 << 13, 1 << 14, 1 << 15
_FILES = (1 << 13) - 1
_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _DEVICE_COMMANDS}
_TCP = 3
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

USE = EXECUTE | READ | LIST
DEVICE = READ | WRITE | _TRUNCATE
KEEP = (
    USE | WRITE | _REMOVE | _MAKE_FOLDER | _MAKE_FILE | _MAKE_FIFO | _MAKE_LINK | _REFER | _TRUNCATE
)
# The rights that a rule for a file may name; a rule for a folder may name all.
_OF_A_FILE = EXECUTE | READ | WRITE | _TRUNCATE | _DEVICE_COMMANDS
KEEP_CAPABILITIES, SUBREAPER, NO_NEW_PRIVILEGES = 8, 36, 38
_SECCOMP, _FILTER_MODE, _AMBIENT, _RAISE = 22, 2, 47, 2
_CAPABILITY_VERSION = 0x2008_0522
_READ_SEARCH = 2
_KILL, _STOP = 9, 19
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A placeholder in a filter for the program's own pid; activities/sandbox/seccomp.py.
_OWN_PID = (0x7FFF_FFF1).to_bytes(4, "little")

_libc = ctypes.CDLL(None, use_errno=True)


def confine(settings: dict[str, Any]) -> None:
    """Give up all privileges, and apply the rules and the filter.

    Of the settings, `reads_all` keeps the right to read files whatever their permissions, `rules`
    map paths to the rights below them, and `filter` is an array of struct sock_filter.
    """
    set_capabilities(reading=settings["reads_all"])
    prctl(NO_NEW_PRIVILEGES, 1)
    restrict(settings["rules"])
    program = settings["filter"].replace(_OWN_PID, os.getpid().to_bytes(4, "little"))
    loaded = _Filter(len(program) // 8, program)
    _check(_libc.prctl(_SECCOMP, _FILTER_MODE, ctypes.byref(loaded)), "seccomp")


def version() -> int:
    """Return the version of the kernel's Landlock, or 0 if it has none or it is off."""
    found: int = _libc.syscall(_CREATE, None, 0, 1)
    return max(0, found)


def keep_signals_in() -> bool:
    """Enter a domain that signals can't leave: a kill of -1 then ends only its processes.

    Landlock has such domains from version 6 on; before, do nothing and return False.
    """
    if version() < 6:
        return False
    _enter(_ruleset(0, 0, _SIGNALS))
    return True


def restrict(rules: Mapping[str, int]) -> None:
    """Allow what the rules allow below their paths, and nothing else in any file system.

    Paths that do not exist are left out. Raises OSError if the kernel refuses.
    """
    found = version()
    handled = _FILES | sum(bit for since, bit in _SINCE.items() if since <= found)
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if found >= 6 else 0
    ruleset = _ruleset(handled, _TCP if found >= 4 else 0, scoped)
    for path, allowed in rules.items():
        _add(ruleset, path, allowed & handled)
    _enter(ruleset)


def _ruleset(files: int, network: int, scoped: int) -> int:
    attributes = struct.pack("<QQQ", files, network, scoped)
    # An older kernel refuses a longer structure than it knows.
    size = len(attributes) if scoped else 16 if network else 8
    made = _libc.syscall(_CREATE, attributes, size, 0)
    return _check(made, "a Landlock ruleset")


def _add(ruleset: int, path: str, allowed: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        bits = allowed if os.path.isdir(path) else allowed & _OF_A_FILE  # noqa: PTH112 - pathlib is slow to import
        rule = struct.pack("<Qi", bits, beneath)
        _check(_libc.syscall(_ADD, ruleset, _PATH_BENEATH, rule, 0), f"a Landlock rule for {path}")
    finally:
        os.close(beneath)


def _enter(ruleset: int) -> None:
    try:
        _check(_libc.syscall(_RESTRICT, ruleset, 0), "Landlock")
    finally:
        os.close(ruleset)


def _check(returned: int, what: str) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return returned


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def set_capabilities(*, reading: bool) -> None:
    """Give up all capabilities, for good once executed programs can't gain any.

    `reading` keeps the one to read files and folders whatever their permissions, for a Python in a
    folder that only root can enter. Landlock limits it, and programs that are executed have it too.
    """
    header, bits = struct.pack("<Ii", _CAPABILITY_VERSION, 0), reading << _READ_SEARCH
    _check(_libc.capset(header, struct.pack("<6I", bits, bits, bits, 0, 0, 0)), "capset")
    if reading:
        prctl(_AMBIENT, _RAISE, _READ_SEARCH)


def prctl(option: int, *arguments: int) -> None:
    """Set an attribute of this process. Raises OSError."""
    padded = [ctypes.c_ulong(given) for given in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(option, *padded), f"prctl {option}")


def prepare(settings: Settings) -> None:
    """Become the parent of every orphan, and keep signals inside, before the program starts."""
    prctl(SUBREAPER, 1)
    if settings["reads_all"]:
        # Root's capabilities stay permitted after the change of user, until others are set.
        prctl(KEEP_CAPABILITIES, 1)
    # Landlock and the filter need this first.
    prctl(NO_NEW_PRIVILEGES, 1)
    settings["domain"] = keep_signals_in()
    # The kernel counts all processes of a user: leave out those that the worker has anyway.
    others = settings["others"]
    settings["rlimits"] = [
        (kind, (soft + others, hard + others) if kind == resource.RLIMIT_NPROC else (soft, hard))
        for kind, (soft, hard) in settings["rlimits"]
    ]


def sweep(settings: Settings) -> None:
    """End and reap every process below this one; delete the folders if the worker is dead."""
    while True:
        if settings["domain"]:
            _signal(-1)
        elif settings["uid"] is not None:
            _kill_user(settings["uid"])
        else:
            _kill_tree()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    for top in settings["tops"]:
        if _is_given_up(top, wait=settings["orphaned"]):
            clear(top)


def _is_given_up(folder: str, *, wait: bool) -> bool:
    """Tell whether the worker's lock on a folder is gone, and the worker with it.

    When a worker dies, the kernel may close its lifeline first: then wait for the lock.
    """
    import fcntl

    handle = os.open(folder, _FOLDER)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _kill_user(user: int) -> None:
    """Kill all processes of a user, as that user; the kernel spares the caller."""
    pid = os.fork()
    if not pid:
        os.setresuid(user, user, user)
        _signal(-1)
        os._exit(0)
    os.waitpid(pid, 0)


def _kill_tree() -> None:
    # Stop them first: a stopped process can't fork, and the others are found in the next round.
    found: set[int] = set()
    while new := _below(os.getpid()) - found:
        for pid in new:
            _signal(pid, _STOP)
        found |= new
    for pid in found:
        _signal(pid)


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib is slow to import
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:  # noqa: PTH123 - as above
                found.update(map(int, file.read().split()))
    except OSError:
        return set()
    return found.union(*map(_below, found))


def _signal(pid: int, number: int = _KILL) -> None:
    try:  # noqa: SIM105 - contextlib is slow to import
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def clear(top: str) -> None:
    """Delete a folder and all in it, without following links. Processes must not change it now.

    Inner folders are first moved up to it, so that paths stay short and recursion is not needed.
    """
    handle = os.open(top, _FOLDER)
    try:
        numbers = count()
        _flatten(handle, handle, numbers)
        while folders := os.listdir(handle):  # noqa: PTH208 - it is open, and has no path
            for name in folders:
                _clear_folder(handle, name, numbers)
    finally:
        os.close(handle)
    os.rmdir(top)  # noqa: PTH106 - pathlib is slow to import


def _clear_folder(top: int, name: str, numbers: count[int]) -> None:
    handle = os.open(name, _FOLDER, dir_fd=top)
    try:
        _flatten(top, handle, numbers)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=top)


def _flatten(top: int, handle: int, numbers: count[int]) -> None:
    """Delete the files of a folder, and move its folders up under unused names."""
    with os.scandir(handle) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=handle)
            continue
        # The program may have removed the permissions to list it.
        os.chmod(name, stat.S_IRWXU, dir_fd=handle)
        os.rename(name, f"\n{next(numbers)}", src_dir_fd=handle, dst_dir_fd=top)
