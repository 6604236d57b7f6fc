"""One file of settings: the keys that it may have, their lines, and the texts that it names.

A file may lie in a folder that somebody else made. So it sets only what `settable` lists: no
address, key, command or server, and nothing that a run writes to or loads beside itself. The texts
and folders that it names are inside its own folder.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from pydantic import BaseModel, ValidationError

from mull.critique.criteria import PRESETS, Criterion
from mull.errors import ConfigurationError
from mull.loops import LOOPS, SESSION
from mull.multipath.request import Limits
from mull.option import Option
from mull.request import SamplingOptions, explain_part, parse_request, short_name, unambiguous_json
from mull.sampling.rules import STOPPING_PRESETS, Stopping
from mull.text import terminal_safe

Fields: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, ...]

FILE, PYPROJECT = "mull.toml", "pyproject.toml"
FILE_BYTES, TEXT_BYTES = 200_000, 1_000_000
# How often the end of a statement is looked for: a hostile one has thousands of lines.
MOST_TRIES = 200
# A key of more parts than a setting has takes the parser minutes, and more nesting breaks off what
# reads its value.
MANY_PARTS = re.compile(
    r"""(?:^|[\[{,])[ \t]*(?:(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*){50}""",
    re.MULTILINE,
)
DEEPEST, LARGEST_BITS = 50, 64
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")

COMMANDS = {loop.command: loop.request for loop in LOOPS if loop is not SESSION}
# What other runs read, what a worker loads, and how one run is shown is said at its start.
WITHHELD = frozenset({"memory", "reward_model", "base_model", "tuned", "stream"})
# Settings although no option has their name.
MORE = ("guardrails", "limits")
# Tables whose keys are settings of their own.
PARTS: dict[str, type[BaseModel]] = {"limits": Limits, "options": SamplingOptions}
# Settings that may name a table of one's own: where these tables are, and which names are taken.
OWN: dict[str, tuple[str, Iterable[str]]] = {
    "preset": ("presets", STOPPING_PRESETS),
    "criteria": ("criteria", PRESETS),
}
TABLES = {*COMMANDS, "presets", "criteria", "profiles"}


@cache
def settable(command: str) -> dict[str, Option | None]:
    """List the fields of a command's request that a file may set, with their options."""
    fields = COMMANDS[command].model_fields
    declared = {name: field.json_schema_extra for name, field in fields.items()}
    return {
        name: one if isinstance(one, Option) else None
        for name, one in declared.items()
        if (isinstance(one, Option) or name in MORE) and name not in WITHHELD
    }


@cache
def shared() -> dict[str, Option | None]:
    """List what can be set for all commands at once: not a batch's own bounds, nor own tables."""
    every = [settable(name) for name in COMMANDS if name != "batch"]
    return {name: one[name] for one in every for name in one if name not in TABLES}


@dataclass(frozen=True)
class Source:
    """A file of settings: `tables` is what it says, without `tool.mull` around it."""

    path: Path
    of: Literal["project", "user"]
    text: str
    tables: Fields

    @property
    def shown(self) -> str:
        """The path as a person reads it."""
        return shown(self.path)

    def line(self, place: Place) -> int:
        """Return the line, from 1, of a key, or of the table or value that it is in."""
        place = (*(("tool", "mull") if self.path.name == PYPROJECT else ()), *place)
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def fail(self, place: Place, said: str) -> NoReturn:
        """Raise ConfigurationError about a key."""
        where = f"{self.shown}, line {self.line(place)}"
        # A key may hold what acts on a terminal.
        raise ConfigurationError(f"{where}: {terminal_safe(said, 500)}")

    @cached_property
    def _lines(self) -> dict[Place, int]:
        """The line of each key: the parser is given one statement after the other."""
        found, table, start, statement, tries = dict[Place, int](), Place(), 1, "", 0
        for number, line in enumerate(self.text.split("\n"), start=1):
            statement += f"{line}\n"
            # A value of several lines ends in one of these.
            if number > start and not re.search(r"\"\"\"|'''|]", line):
                continue
            tries += 1
            try:
                place = _place_in(tomllib.loads(statement) if tries < MOST_TRIES else None)
            except ValueError:
                continue
            if statement.lstrip().startswith("["):
                table = place
            else:
                place = (*table, *place)
            for end in range(1, len(place) + 1):
                found.setdefault(place[:end], start)
            start, statement, tries = number + 1, "", 0
        return found

    def check(self) -> None:
        """Refuse keys that are not known. Raises ConfigurationError."""
        self._check_commands((), self.tables)
        for kind in ("presets", "criteria", "profiles"):
            for name, table in self._table((kind,), self.tables.get(kind, {})).items():
                self._check_own((kind, name), self._table((kind, name), table))

    def _check_commands(self, place: Place, table: Fields) -> None:
        for key, value in table.items():
            if key in COMMANDS:
                self._check_keys((*place, key), value, settable(key))
            elif place or key not in TABLES:
                more = COMMANDS if place else TABLES
                self._check_keys(place, {key: value}, {**dict.fromkeys(more), **shared()})

    def _check_own(self, place: Place, table: Fields) -> None:
        kind, name = place
        if not NAME.fullmatch(name):
            said = "expected a small letter, and at most 39 more, digits, - or _"
            self.fail(place, f"{kind}.{short_name(name)}: {said}")
        if any(kind == where and name in taken for where, taken in OWN.values()):
            self.fail(place, f"{kind}.{name}: Mull has one of this name; choose another")
        if kind == "profiles":
            self._check_commands(place, table)
        elif kind == "presets":
            self._check_keys(place, table, dict.fromkeys({*Stopping.model_fields} - {"preset"}))
        else:
            for key, meant in table.items():
                if isinstance(meant, dict):
                    known = dict.fromkeys({*Criterion.model_fields} - {"name"})
                    self._check_keys((*place, key), meant, known)

    def _check_keys(self, place: Place, table: Any, known: Mapping[str, Option | None]) -> None:
        for key, value in self._table(place, table).items():
            if key not in known:
                self.fail((*place, key), _unknown(key, known))
            if key in PARTS and isinstance(value, dict):
                self._check_keys((*place, key), value, dict.fromkeys(PARTS[key].model_fields))

    def _table(self, place: Place, given: Any) -> Fields:
        if not isinstance(given, dict):
            self.fail(place, f"expected a table, [{'.'.join(place)}]")
        return given

    def layer(self, place: Place, command: str) -> Fields:
        """Return what the table at this place sets for a command. Raises ConfigurationError.

        Texts of files are read, and the path of a folder is absolute.
        """
        table: Any = self.tables
        for name in place:
            table = table.get(name, {})
        known, own = settable(command), place[-1:] == (command,)
        found = {
            name: self._value((*place, name), known[name], one)
            for name, one in table.items()
            if name in known and (own or name in shared())
        }
        # A name of one's own is looked up where all files are known.
        sure = {k: one for k, one in found.items() if k not in OWN or not isinstance(one, str)}
        for at, said in faults(COMMANDS[command], sure):
            # A table is a part of a request: what else that needs is no fault of it.
            if at and at[0] in sure:
                self.fail((*place, *at), said)
        return found

    def _value(self, place: Place, option: Option | None, given: Any) -> Any:
        form = option.form if option else None
        if form == "folder" and isinstance(given, str):
            return str(self._inside(place, given))
        if form == "texts" and isinstance(given, list):
            return [self._text(place, one) if _names_file(one) else one for one in given]
        if form not in {"text", "json"} or not _names_file(given):
            return given
        text = self._text(place, given)
        try:
            return text if form == "text" else unambiguous_json(text)
        except ValueError as error:
            self.fail(place, f"{place[-1]}: the file is {error}")

    def _text(self, place: Place, given: Fields) -> str:
        path, what = self._inside(place, given["file"]), f"{place[-1]}: the file"
        try:
            if not path.is_file():
                self.fail(place, f"{what} is not there")
            if path.stat().st_size > TEXT_BYTES:
                self.fail(place, f"{what} has over {TEXT_BYTES:,} bytes")
            return path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            self.fail(place, f"{what} is not UTF-8 text")
        except OSError as error:
            self.fail(place, f"{what} can't be read: {error.strerror}")

    def _inside(self, place: Place, given: str) -> Path:
        """Return the real path of what lies in the file's own folder.

        Hidden files are refused since secrets lie there, as in .env and .git/config.
        """
        folder = self.path.parent.resolve()
        try:
            path = (folder / given).resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, or NUL
            self.fail(place, f"{place[-1]}: not a valid path")
        if not path.is_relative_to(folder):
            self.fail(place, f"{place[-1]}: the path leads out of the folder of {self.shown}")
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            self.fail(place, f"{place[-1]}: hidden files and folders are not read")
        return path


def _names_file(given: Any) -> bool:
    return isinstance(given, dict) and given.keys() == {"file"} and isinstance(given["file"], str)


def _place_in(said: Any) -> Place:
    """Return where the one key stands that a statement has."""
    place = Place()
    while said and isinstance(said, dict | list):
        if isinstance(said, dict):
            name, said = next(iter(said.items()))
            place = (*place, name)
        else:
            said = said[-1]
    return place


def _unknown(key: str, known: Mapping[str, Option | None]) -> str:
    """Say that a key is not known, and which one is near, or where it belongs."""
    name, names = short_name(key), {one: one for one in known}
    # An option may have another name than its field, or two.
    for field, one in known.items():
        names |= {_plain(flag): field for flag in (one.flag, one.also) if flag} if one else {}
    commands = [command for command in COMMANDS if key in settable(command)]
    if _plain(key) not in names and commands:
        return f"{name} is a setting of {', '.join(commands)}"
    if any(key in kind.model_fields for kind in COMMANDS.values()) and not commands:
        return f"{name} can't be set in a file; give it where the run is started"
    near = [_plain(key)] if _plain(key) in names else get_close_matches(_plain(key), names, 2, 0.65)
    meant = " or ".join(dict.fromkeys(names[one] for one in near))
    return f"there is no setting {name}" + (f"; did you mean {meant}?" if meant else "")


def _plain(name: str) -> str:
    return name.strip("-").replace("-", "_").lower()


def faults(kind: Any, fields: Any) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong with values, read as JSON of a request: where, and why."""
    try:
        parse_request(kind, json.dumps(fields, default=str))
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            said = explain_part(one["loc"], one["type"], one["msg"])
            yield tuple(map(str, one["loc"])), said
    except ValueError as error:
        yield (), str(error)


def shown(path: Path) -> str:
    """Return a path as a person reads it: from the current folder or the home folder on."""
    said, here = str(path), Path.cwd()
    home = os.path.abspath(os.path.expanduser("~"))  # noqa: PTH100, PTH111 - never raises
    if path.is_relative_to(here) or here.is_relative_to(path.parent):
        said = os.path.relpath(path, here)
    elif path.is_relative_to(home):
        said = f"~{os.sep}{path.relative_to(home)}"
    return terminal_safe(said, 200)


def tables_in(path: Path) -> tuple[str, Fields | None]:
    """Read a file: its text, and what it sets; None for a pyproject.toml without `tool.mull`.

    Raises ConfigurationError.
    """
    name, whole = shown(path), path.name != PYPROJECT
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
        if not whole and b"mull" not in data:
            return "", None
        if len(data) > FILE_BYTES:
            raise ConfigurationError(f"{name}: over {FILE_BYTES:,} bytes")
        text = data.decode("utf-8-sig")
        if MANY_PARTS.search(text):
            raise ConfigurationError(f"{name}: a key has over 50 parts")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigurationError(f"{name} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # ValueError: also for an int of 5,000 digits
        raise ConfigurationError(f"{name}: not TOML: {terminal_safe(str(error), 200)}") from None
    tool = tables.get("tool")
    own = tables if whole else tool.get("mull") if isinstance(tool, dict) else None
    if own is not None and not isinstance(own, dict):
        raise ConfigurationError(f"{name}: tool.mull: expected a table")
    if fault := _unreadable(own):
        raise ConfigurationError(f"{name}: {fault}")
    return text, own


def _unreadable(tables: Any) -> str | None:
    """Say why values could not be written as JSON, which has no depth and no digits without end."""
    level = [tables]
    for _ in range(DEEPEST):
        if any(isinstance(one, int) and one.bit_length() > LARGEST_BITS for one in level):
            return f"an integer has over {LARGEST_BITS} bits"
        parts = [one.values() if isinstance(one, dict) else one for one in level if _holds(one)]
        level = [one for part in parts for one in part]
    return f"nested over {DEEPEST} deep" if level else None


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)


def find(folder: Path) -> Path | None:
    """Find the file of a project: in this folder, or else in the nearest one above it.

    It looks no higher than the repository's root, as mypy does, nor than the home folder, and like
    ssh takes only files of this user or of root. A pyproject.toml counts if it can be read and has
    the table `tool.mull`, and goes after a mull.toml beside it.
    """
    return next(filter(_counts, _places(folder)), None)


def passed_over(folder: Path) -> list[Path]:
    """List the files mull.toml that `find` passes over, since another user owns them."""
    nearer = takewhile(lambda path: not _counts(path), _places(folder))
    return [path for path in nearer if path.name == FILE and os.path.isfile(path)]  # noqa: PTH113 - never raises


def _places(folder: Path) -> Iterator[Path]:
    """Yield where a project's file may be, the nearest first; nothing where the folder is gone."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - never raises
    with suppress(FileNotFoundError):
        for above in (folder.absolute(), *folder.absolute().parents):
            yield from (above / FILE, above / PYPROJECT)
            if str(above) == home or os.path.lexists(above / ".git"):
                break


def _counts(path: Path) -> bool:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    # Windows knows no such owner.
    mine = getattr(os, "geteuid", lambda: 0)()
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in {0, mine}:
        return False
    return path.name == FILE or (os.access(path, os.R_OK) and tables_in(path)[1] is not None)
