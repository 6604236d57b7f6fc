"""The command `settings`: each value that files set, and where it comes from."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.command import Json, print_json, tell
from commands.options import (
    Profile,
    brief,
    in_effect,
    origin_of,
    own_file,
    refuse,
    variables_of,
    words_of,
)
from mull.errors import ConfigurationError, RequestError
from mull.settings import Setting, Settings
from mull.settings_file import COMMANDS, FILE, OWN, PYPROJECT, passed_over, settable, shown
from mull.text import terminal_safe

VALUE_COLUMNS = 300


class Row(NamedTuple):
    """A value in effect, where it is from in words, and both for a machine."""

    value: str
    origin: str
    facts: Mapping[str, Any]


def settings(
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="Only what is set for this command.")
    ] = None,
    profile: Profile = None,
    as_json: Json = False,
) -> None:
    """Print what files set for commands, and where each value is from.

    An option goes before a variable of the environment, and that before a profile, the
    project's file and your own. The project's file is the nearest mull.toml, or pyproject.toml
    with [tool.mull], in the current folder or above it; yours is ~/.config/mull/mull.toml (on
    Linux). MULL_SETTINGS names one file in place of both.

    For example:

        mull settings
        mull settings ask --profile cheap
        mull settings --json
        MULL_SETTINGS=/dev/null mull settings

    Exit codes: 0 done, 2 wrong usage, or a file that is wrong.
    """
    found = in_effect(profile)
    others = [] if os.environ.get("MULL_SETTINGS") else passed_over(Path())
    for file in others:
        why = "another user owns it. If you trust it, name it by MULL_SETTINGS"
        tell(f"Note: {shown(file)} is passed over: {why}.")
    try:
        rows = {name: _rows(found, name) for name in ([command] if command else COMMANDS)}
        named = [one for one in OWN if command is None or one in settable(command)]
        own = {OWN[field][0]: _own_rows(found, field) for field in named}
    except (ConfigurationError, RequestError) as error:
        refuse(error)
    if not as_json:
        _print(found, rows, own)
        return
    print_json(
        {
            "files": {one.of: str(one.path) for one in found.sources},
            "passed_over": [str(file) for file in others],
            "profile": profile,
            "profiles": list(found.tables("profiles")),
            "settings": {
                name: {key: row.facts for key, row in each.items()} for name, each in rows.items()
            },
            **{kind: {key: row.facts for key, row in each.items()} for kind, each in own.items()},
        }
    )


def _rows(found: Settings, command: str) -> dict[str, Row]:
    rows = {name: _row(one.value, one) for name, one in found.of(command).items()}
    for name, (variable, value) in variables_of(command).items():
        facts = {"value": value, "from": "environment", "variable": variable}
        rows[name] = Row(words_of(value), variable, facts)
    return rows


def _row(value: Any, setting: Setting) -> Row:
    source = setting.source
    place = {"from": source.of, "file": str(source.path), "line": setting.line}
    facts = {"value": value, **place, "profile": setting.profile}
    return Row(words_of(value), origin_of(setting), facts)


def _own_rows(found: Settings, field: str) -> dict[str, Row]:
    """Return the presets or criteria of one's own by their names."""
    kind, _ = OWN[field]
    rows = {}
    for name, source in found.tables(kind).items():
        value = found.own(field, name)
        row = _row(value, Setting(value, source, (kind, name), None))
        named = [one["name"] for one in value] if field == "criteria" else value.items()
        parts = [one if isinstance(one, str) else brief(*one) for one in named]
        rows[name] = row._replace(value=", ".join(parts))
    return rows


def _print(found: Settings, rows: Mapping[str, dict[str, Row]], own: Any) -> None:
    if not found.sources:
        above = (
            f"no {FILE}, and no {PYPROJECT} with [tool.mull], of yours in this folder or above it"
        )
        tell(f"There is {above}, and no {own_file()}.")
    merged = dict[tuple[str, str, str], list[str]]()
    for command, each in rows.items():
        for name, row in each.items():
            merged.setdefault((name, row.value, row.origin), []).append(command)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for title in ("setting", "value", "command", "from"):
        # The place is copied.
        table.add_column(title, overflow="fold", no_wrap=title == "from")
    for (name, value, origin), commands in merged.items():
        every = [one for one in COMMANDS if one != "batch" and name.split(".")[0] in settable(one)]
        said = "all" if 1 < len(commands) == len(every) else ", ".join(commands)
        table.add_row(name, Text(terminal_safe(value, VALUE_COLUMNS)), said, Text(origin))
    for kind, each in own.items():
        for name, row in each.items():
            cell = Text(terminal_safe(row.value, VALUE_COLUMNS))
            table.add_row(f"{kind}.{name}", cell, "", Text(row.origin))
    if table.rows:
        Console().print(table)
    else:
        tell("Nothing is set.")
    if profiles := found.tables("profiles"):
        tell(f"Profiles: {', '.join(profiles)}.")
