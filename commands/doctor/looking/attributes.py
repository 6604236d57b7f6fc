"""Mull's search attributes: which a server has, and the commands that add the others."""

import shlex
from collections.abc import Mapping

from commands.doctor.check import Check
from commands.doctor.looking.cli import temporal_command
from connection import DEFAULT_ADDRESS
from telemetry import SEARCH_ATTRIBUTES

AREA, NAME = "server", "search attributes"


def attributes_check(known: Mapping[str, str], address: str, namespace: str) -> Check:
    """Compare the attributes that a server has, by name and type, with Mull's."""
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
    other = {
        name: kind for name, kind in SEARCH_ATTRIBUTES.items() if known.get(name, kind) != kind
    }
    if not missing and not other:
        return Check(AREA, NAME, "ok", f"all {len(SEARCH_ATTRIBUTES)} are registered")
    said = []
    if missing:
        count = f"{len(missing)} of {len(SEARCH_ATTRIBUTES)}"
        said.append(f"{count} are missing ({', '.join(missing)}): runs work, and can't be found so")
    said += [f"{name} is {known[name]}, and shall be {kind}" for name, kind in other.items()]
    commands = _commands(missing, address, namespace)
    do = ("register them by the commands below",) if commands else ("remove it, and add it anew",)
    return Check(AREA, NAME, "warning", "; ".join(said), do, commands)


def _commands(missing: list[str], address: str, namespace: str) -> tuple[str, ...]:
    where = "" if address == DEFAULT_ADDRESS else f" --address {shlex.quote(address)}"
    where += "" if namespace == "default" else f" --namespace {shlex.quote(namespace)}"
    create = f"{temporal_command()} operator search-attribute create"
    by_type: dict[str, list[str]] = {}
    for name in missing:
        by_type.setdefault(SEARCH_ATTRIBUTES[name], []).append(f"--name {name}")
    return tuple(
        f"{create}{where} --type {kind} {' '.join(names)}" for kind, names in by_type.items()
    )
