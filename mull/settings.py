"""Settings of a project and of a user: `mull.toml`, or `[tool.mull]` in pyproject.toml.

Nothing is read unless `read` is called: `read(Path()).complete("ask", {"question": "..."})` are the
fields of a request. What a name of one's own stands for is in them, since a run's history holds it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from mull.critique.criteria import Criterion
from mull.errors import ConfigurationError, RequestError
from mull.request import short_name
from mull.sampling.rules import STOPPING_PRESETS, Stopping
from mull.settings_file import (
    COMMANDS,
    FILE,
    OWN,
    PARTS,
    Fields,
    Place,
    Source,
    faults,
    find,
    tables_in,
)
from mull.text import terminal_safe


class Setting(NamedTuple):
    """A value, and where it is from: its key in a file, and the profile if it is one's."""

    value: Any
    source: Source
    place: Place
    profile: str | None

    @property
    def line(self) -> int:
        """The line in the file, from 1."""
        return self.source.line(self.place)


@dataclass(frozen=True)
class Settings:
    """The settings of files, each of which goes before those ahead of it, and of a profile."""

    sources: tuple[Source, ...] = ()
    profile: str | None = None

    def tables(self, kind: str) -> dict[str, Source]:
        """List the names of tables: of `profiles`, `presets` or `criteria`, and whose each is."""
        return {name: one for one in self.sources for name in one.tables.get(kind, {})}

    def names(self, field: str) -> list[str]:
        """List what `preset` or `criteria` can name: Mull's own, and those of the files."""
        kind, taken = OWN[field]
        return [*taken, *self.tables(kind)]

    def of(self, command: str) -> dict[str, Setting]:
        """Return what is set for a command.

        Each key of `limits` and `options` is a setting: `limits.memory_mb`. Raises
        ConfigurationError where a value is wrong, RequestError for a command without settings.
        """
        if command not in COMMANDS:
            said = f"there are no settings of {short_name(command)}"
            raise RequestError(f"{said}; choose one of {', '.join(COMMANDS)}")
        found: dict[str, Setting] = {}
        for profile in dict.fromkeys((None, self.profile)):
            for source in self.sources:
                for place in _places(command, profile):
                    layer = source.layer(place, command)
                    for field in OWN.keys() & layer.keys():
                        name = layer[field]
                        if isinstance(name, str) and name not in self.names(field):
                            source.fail((*place, field), f"{field}: {self._unknown(field, name)}")
                    layer = _flat(layer)
                    own = {
                        name: Setting(one, source, (*place, *name.split(".")), profile)
                        for name, one in layer.items()
                    }
                    held = self._held(layer)
                    found = {name: one for name, one in found.items() if name not in held} | own
        return found

    def beside(self, command: str, given: Mapping[str, Any]) -> dict[str, Setting]:
        """Return what is set for a command where nothing is given; None is not given."""
        held = self._held(_flat(given))
        return {name: one for name, one in self.of(command).items() if name not in held}

    def complete(self, command: str, given: Mapping[str, Any]) -> Fields:
        """Return the fields of a request: what is given, and else what is set.

        A name of one's own becomes the values that it stands for. Raises ConfigurationError, and
        RequestError for a name that is given and not known.
        """
        known = {name: one.value for name, one in self.beside(command, given).items()}
        fields: Fields = {name: one for name, one in given.items() if one is None}
        for name, value in (known | _flat(given)).items():
            part, dot, key = name.partition(".")
            fields[part] = {**(fields.get(part) or {}), key: value} if dot else value
        for field in OWN.keys() & fields.keys():
            name = fields[field]
            if not isinstance(name, str):
                continue
            if name not in self.names(field):
                raise RequestError(self._unknown(field, name), field=field)
            own = self.own(field, name)
            if field == "criteria":
                fields[field] = name if own is None else own
            elif own is not None:
                fields |= {key: one for key, one in own.items() if fields.get(key) is None}
                fields[field] = None
        return fields

    def _unknown(self, field: str, name: str) -> str:
        known = ", ".join(self.names(field))
        return f"there is no {terminal_safe(name, 40)}; choose one of {known}"

    def _held(self, layer: Mapping[str, Any]) -> set[str]:
        """Name what a layer sets, and what its preset stands for, which layers under it do not."""
        preset = layer.get("preset")
        if not isinstance(preset, str) or preset not in self.names("preset"):
            return set(layer)
        known = STOPPING_PRESETS.get(preset) or self.own("preset", preset)
        # The fewest answers follow from a preset's rule.
        return {*layer, *known, "min_responses"}

    def own(self, field: str, name: str) -> Any:
        """Return a preset or the criteria of one's own, as values; None for one of Mull's."""
        kind, taken = OWN[field]
        if name in taken:
            return None
        source = self.tables(kind)[name]
        place, given = (kind, name), source.tables[kind][name]
        if field == "preset":
            for at, said in faults(Stopping, given):
                source.fail((*place, *at), said)
            return given
        criteria = [
            {"name": key, **(one if isinstance(one, dict) else {"meaning": one})}
            for key, one in given.items()
        ]
        for at, said in faults(tuple[Criterion, ...], criteria):
            key = list(given)[int(at[0])] if at else name
            source.fail((*place, key), f"{key}{said.removeprefix(at[0] if at else '')}")
        return criteria


def _places(command: str, profile: str | None) -> Iterator[Place]:
    """Yield the tables of a file for a command; each goes before those ahead of it."""
    base = ("profiles", profile) if profile else ()
    # The bounds of a run are not those of a batch of runs.
    if command != "batch":
        yield base
    yield (*base, command)


def _flat(fields: Mapping[str, Any]) -> Fields:
    """Take apart the fields whose keys are settings of their own; leave out None."""
    found: Fields = {}
    for name, value in fields.items():
        given = value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
        if name in PARTS and isinstance(given, dict):
            found |= {f"{name}.{key}": one for key, one in given.items()}
        elif value is not None:
            found[name] = value
    return found


def _source(path: Path, of: Literal["project", "user"]) -> Source:
    text, tables = tables_in(path)
    source = Source(path.absolute(), of, text, tables or {})
    source.check()
    return source


def read(project: Path | None, profile: str | None = None, *, user: Path | None = None) -> Settings:
    """Read the settings of a file, with a profile, and under them those of a user's own file.

    A folder stands for the file that `find` finds. Raises ConfigurationError.
    """
    if project is not None and project.is_dir():
        project = find(project)
    sources = []
    if user is not None and user != project:
        sources.append(_source(user, "user"))
    if project is not None:
        sources.append(_source(project, "project"))
    settings = Settings(tuple(sources), profile)
    known = settings.tables("profiles")
    if profile is not None and profile not in known:
        where = " or ".join(one.shown for one in sources) or f"a {FILE}, which is not there"
        near = get_close_matches(profile, known, 1) or sorted(known)
        more = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ConfigurationError(
            f"there is no profile {terminal_safe(profile, 40)} in {where}{more}"
        )
    return settings
