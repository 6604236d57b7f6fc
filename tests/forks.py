"""Commands and workers as processes that have imported all they need before they start.

An import of LiteLLM takes five seconds, and one of TRL six: most tests need not pay for that. Each
process is forked from one that has them, and is one like any other: it has its own environment,
prints, ends and is killed. Tests of starting itself run the files as users do.
"""

import gc
import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from pkgutil import walk_packages
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory

import commands
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
# What can not be imported, as without the extra `train`, is left out.
ADAPTERS = (
    "documents.folder", "language_model.embedded", "language_model.litellm_model",
    "training.trainers",
)  # fmt: skip


def _server() -> ForkServerContext:
    """Return what forks processes; the first one starts it, and it ends with this process."""
    context = get_context("forkserver")
    context.set_forkserver_preload(
        [
            *("starter", "worker", "rich.progress", "activities.sandbox.selftest", __name__),
            *(found.name for found in walk_packages(commands.__path__, "commands.")),
            *(f"activities.{name}" for name in ADAPTERS),
        ]
    )
    return context


_context = _server()


def start(
    arguments: Sequence[str],
    environment: dict[str, str],
    output: Path,
    errors: Path,
    stdin: Path = Path(os.devnull),
) -> ForkServerProcess:
    """Start a file of the project's with arguments; what it prints is added to these files."""
    files = (stdin, output, errors)
    process = _context.Process(target=_become, args=(arguments, environment, files), daemon=True)
    process.start()
    return process


def run(
    *arguments: str, environment: dict[str, str], stdin: str = "", seconds: float = PATIENCE
) -> "CompletedProcess[str]":
    """Run a file of the project's to its end, and return what it printed and its exit code."""
    with TemporaryDirectory() as folder:
        given, output, errors = (Path(folder, name) for name in ("stdin", "stdout", "stderr"))
        given.write_text(stdin)
        process = start(arguments, environment, output, errors, given)
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise TimeoutExpired(arguments, seconds)
        return CompletedProcess(arguments, process.exitcode, output.read_text(), errors.read_text())


def _become(
    arguments: Sequence[str], environment: dict[str, str], files: tuple[Path, Path, Path]
) -> None:
    gc.freeze()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    added = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (file, flags) in enumerate(zip(files, (os.O_RDONLY, added, added), strict=True)):
        os.dup2(os.open(file, flags, 0o600), number)
    sys.stdin, sys.argv = os.fdopen(0), [*arguments]
    runpy.run_path(arguments[0], run_name="__main__")
