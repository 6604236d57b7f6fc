"""The system calls that a filter knows by name, as `syscalls.txt` lists them."""

from functools import cache
from pathlib import Path

MACHINES = ("x86_64", "aarch64")


@cache
def groups(machine: str) -> dict[str, dict[str, int]]:
    """Return the numbers by name, by group, of the calls that a machine has.

    Raises ValueError for a machine other than x86_64 and aarch64.
    """
    if machine not in MACHINES:
        raise ValueError(f"no list of system calls for {machine}: use x86_64 or aarch64")
    column = 1 + MACHINES.index(machine)
    found: dict[str, dict[str, int]] = {}
    for line in Path(__file__).with_name("syscalls.txt").read_text("ascii").splitlines():
        if line.startswith("["):
            group = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#") and (words := line.split())[column] != "-":
            group[words[0]] = int(words[column])
    return found
