"""The forked process that becomes the program: it gives up its rights, then runs it."""

from __future__ import annotations

# The module `signal` makes enums of it, which takes longer than everything else here.
import _signal as signal  # type: ignore[import-not-found]
import mmap
import os
import resource
import sys

from activities.sandbox.inside.mark import Mark, cause_of
from activities.sandbox.inside.python import module, run_python, script

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Left out when it runs: these take longer to import than everything else here.
    from collections.abc import Callable
    from typing import Any

    Settings = dict[str, Any]

NOT_FOUND = 127
MOST_DESCRIPTORS = 65_536


def become(
    settings: Settings,
    memory: mmap.mmap,
    stdin: int,
    confine: Callable[[Settings], None],
) -> None:
    """Turn this process into the program. Returns, or raises SystemExit, when it has ended."""
    mark = Mark(memory)
    try:
        _settle(settings, stdin, confine)
    except Exception as error:
        mark.set(cause_of(error) or "broken", f"{type(error).__name__}: {error}")
        os._exit(1)
    argv = settings["argv"]
    settings.clear()
    if argv[0] not in ("python", "python3"):
        _execute(argv, mark)
    elif len(argv) > 1 and not argv[1].startswith("-"):
        run_python(argv[1:], script, mark)
    elif len(argv) > 2 and argv[1] == "-m":
        run_python(argv[2:], module, mark)
    else:
        _execute((sys.executable, *argv[1:]), mark)


def _settle(settings: Settings, stdin: int, confine: Callable[[Settings], None]) -> None:
    """Take the place, the environment, the limits and the identity that the program shall have."""
    os.dup2(stdin, 0)
    os.closerange(3, MOST_DESCRIPTORS)
    os.setsid()
    os.umask(0o022)
    if settings["uid"] is not None:
        os.setgroups([])
        os.setresgid(settings["uid"], settings["uid"], settings["uid"])
        os.setresuid(settings["uid"], settings["uid"], settings["uid"])
    for folder in settings.get("folders", ()):
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is slow
    os.chdir(settings["work"])
    _write(settings.pop("files"))
    os.environ.update(settings["env"])
    for kind, limits in settings["rlimits"]:
        resource.setrlimit(kind, _within(resource.getrlimit(kind)[1], limits))
    confine(settings)


def _within(hard: int, limits: tuple[int, int]) -> tuple[int, int]:
    """Keep to the worker's own hard limit, which nobody without privileges may raise."""
    if hard == resource.RLIM_INFINITY:
        return limits
    return min(limits[0], hard), min(limits[1], hard)


def _write(files: dict[str, bytes]) -> None:
    for path, text in files.items():
        if "/" in path:
            os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103 - as above
        with open(path, "wb") as file:  # noqa: PTH123 - as above
            file.write(text)


def _execute(argv: tuple[str, ...], mark: Mark) -> None:
    # Python ignores these, and what it executes would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    mark.set("executed")
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the program's own command, in the sandbox
    except (OSError, ValueError) as error:
        mark.set("running")
        sys.stderr.write(f"{argv[0]}: {getattr(error, 'strerror', error)}\n")
        sys.exit(NOT_FOUND)
