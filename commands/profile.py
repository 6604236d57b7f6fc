"""`settings`, `--profile`, and what files of settings give to a command that starts runs."""

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.command import Json, fail, option_of, print_json, tell
from commands.options import Profile, in_effect, own_file, refuse
from mull.errors import ConfigurationError, RequestError
from mull.request import Request
from mull.settings import Setting, Settings
from mull.settings_file import COMMANDS, FILE, OWN, PYPROJECT, settable
from mull.text import terminal_safe

SHORT_COLUMNS, VALUE_COLUMNS = 40, 300


def completed(
    settings: Settings, request: type[Request], fields: Mapping[str, Any], *, alone: bool
) -> dict[str, Any]:
    """Return the fields of a request with what these settings give, and say what that is."""
    command = next(name for name, kind in COMMANDS.items() if kind is request)
    try:
        known, used = settings.of(command), settings.beside(command, fields)
        whole = settings.complete(command, fields)
    except ConfigurationError as error:
        refuse(error)
    except RequestError as error:
        fail(f"{option_of(request, error.field or '')}: {error}.")
    if alone:
        used = {name: one for name, one in used.items() if name in fields}
        whole = {name: whole[name] for name in fields}
    if used:
        files = dict.fromkeys(one.source.shown for one in used.values())
        by = [f"profile {settings.profile}"] if any(one.profile for one in used.values()) else []
        said = ", ".join(_brief(name, one.value) for name, one in used.items())
        console = Console(stderr=True)
        line = Text(f"settings of {', '.join([*files, *by])}: {said}", "dim")
        console.print(line, soft_wrap=not console.is_terminal)
    for name, (variable, value) in _variables(command).items():
        if name in known and name not in used and fields.get(name) == value:
            tell(f"Note: {variable} goes before the {name} of {_origin(known[name])}.")
    return whole


def _brief(name: str, value: Any) -> str:
    """Show a short value; of a text or a list only that it is set."""
    words = _words(value).strip()
    long = isinstance(value, list | dict) or len(words) > SHORT_COLUMNS or "\n" in words
    return name if long else f"{name} {terminal_safe(words, SHORT_COLUMNS)}"


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _variables(command: str) -> dict[str, tuple[str, Any]]:
    """Return what the environment sets of a command's fields: the variables and their values."""
    options = {name: one for name, one in settable(command).items() if one and one.variable}
    given = {name: os.environ.get(one.variable or "") for name, one in options.items()}
    return {
        name: (one.variable or "", words.split() if one.form == "models" else words)
        for name, one in options.items()
        if (words := given[name])
    }


def _origin(setting: Setting) -> str:
    by = f" (profile {setting.profile})" if setting.profile else ""
    return f"{setting.source.shown}, line {setting.line}{by}"


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
    if command is not None and command not in COMMANDS:
        fail(f"there are no settings of {command}; choose one of {', '.join(COMMANDS)}.")
    found = in_effect(profile)
    try:
        rows = {name: _rows(found, name) for name in ([command] if command else COMMANDS)}
        named = [one for one in OWN if command is None or one in settable(command)]
        own = {OWN[field][0]: _own_rows(found, field) for field in named}
    except ConfigurationError as error:
        refuse(error)
    if not as_json:
        _print(found, rows, own)
        return
    print_json(
        {
            "files": {one.of: str(one.path) for one in found.sources},
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
    for name, (variable, value) in _variables(command).items():
        facts = {"value": value, "from": "environment", "variable": variable}
        rows[name] = Row(_words(value), variable, facts)
    return rows


def _row(value: Any, setting: Setting) -> Row:
    source = setting.source
    place = {"from": source.of, "file": str(source.path), "line": setting.line}
    facts = {"value": value, **place, "profile": setting.profile}
    return Row(_words(value), _origin(setting), facts)


def _own_rows(found: Settings, field: str) -> dict[str, Row]:
    """Return the presets or criteria of one's own by their names."""
    kind, _ = OWN[field]
    rows = {}
    for name, source in found.tables(kind).items():
        value = found.own(field, name)
        row = _row(value, Setting(value, source, (kind, name), None))
        named = [one["name"] for one in value] if field == "criteria" else value.items()
        parts = [one if isinstance(one, str) else _brief(*one) for one in named]
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
        table.add_column(title, overflow="fold")
    for (name, value, origin), commands in merged.items():
        every = [one for one in COMMANDS if one != "batch" and name.split(".")[0] in settable(one)]
        said = "all" if 1 < len(commands) == len(every) else ", ".join(commands)
        table.add_row(name, Text(terminal_safe(value, VALUE_COLUMNS)), said, Text(origin))
    for kind, each in own.items():
        for name, row in each.items():
            shown = Text(terminal_safe(row.value, VALUE_COLUMNS))
            table.add_row(f"{kind}.{name}", shown, "", Text(row.origin))
    if table.rows:
        Console().print(table)
    else:
        tell("Nothing is set.")
    if profiles := found.tables("profiles"):
        tell(f"Profiles: {', '.join(profiles)}.")
