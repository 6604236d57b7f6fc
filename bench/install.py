"""Measure the megabytes, packages and seconds of `pip install .` and of each extra.

    python -m bench.install            the plain install, and each extra
    python -m bench.install dev ""     these alone; "" is the plain one

Each has its own empty virtual environment, by pip as set up here, compiled as by default.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The others are compiled, or take gigabytes.
EXTRAS = ("", "dev", "code", "measure", "encryption", "mcp")


def measure(extra: str, folder: Path) -> tuple[float, int, float]:
    """Install into a folder; return megabytes and packages beyond those of pip, and seconds."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (bytes_before, packages_before), started = size(folder), time.monotonic()
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    command = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", wanted]
    subprocess.run(command, check=True)
    seconds = time.monotonic() - started
    bytes_after, packages_after = size(folder)
    return (bytes_after - bytes_before) / 1e6, packages_after - packages_before, seconds


def size(folder: Path) -> tuple[int, int]:
    """Add up the bytes of files on the disk, as du does, and count the packages."""
    taken = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
    return taken, sum(1 for _ in folder.glob("lib/*/site-packages/*.dist-info"))


def main() -> None:
    """Print a table."""
    print("| extra | MB | packages | seconds |\n|---|---|---|---|")
    for extra in sys.argv[1:] or EXTRAS:
        with tempfile.TemporaryDirectory() as folder:
            megabytes, packages, seconds = measure(extra, Path(folder, "venv"))
        print(f"| {extra or 'none'} | {megabytes:.0f} | {packages} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
