"""A command's options: from the fields of its request, from files, and from tuples of options."""

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from pydantic import TypeAdapter

from commands.command import (
    AcceptAny,
    Again,
    Detach,
    Json,
    NewId,
    called_with,
    fail,
    option_of,
    options_of,
    read_file,
    tell,
)
from commands.help import COMMON, LAST, REQUIRED, WHOLE
from mull.option import Form, Heading, Option
from mull.request import Frozen, Request, SamplingOptions, explain, unambiguous_json
from mull.sampling.result import Bars
from mull.text import terminal_safe

if TYPE_CHECKING:
    from mull.settings import Setting, Settings

# Choices of at most this many characters are the metavar; longer ones go into the help.
FEW = 24
# A value of a file is shown whole up to so many.
SHORT_COLUMNS = 40
HEADINGS: tuple[str, ...] = (REQUIRED, *get_args(Heading), LAST)
TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool}


def own_file() -> Path:
    """Return where the user's own file of settings is, or would be."""
    return Path(typer.get_app_dir("mull")) / "mull.toml"


def settings_here(profile: str | None) -> "Settings":
    """Read what files set in the current folder. Raises ConfigurationError."""
    from mull.settings import Settings, read
    from mull.settings_file import find

    project = user = None
    if only := os.environ.get("MULL_SETTINGS"):
        project = None if only == os.devnull else Path(only)
    else:
        project = find(Path())
        # Where the home is not known its path is not absolute; isfile never raises.
        known = own_file().is_absolute() and os.path.isfile(own_file())  # noqa: PTH113
        user = own_file() if known else None
    return read(project, profile, user=user) if project or user or profile else Settings()


def in_effect(profile: str | None) -> "Settings":
    """Read the settings for the current folder, or exit with an error."""
    from mull.errors import ConfigurationError

    try:
        return settings_here(profile)
    except ConfigurationError as error:
        refuse(error)


def refuse(error: Exception) -> NoReturn:
    """Exit with what is wrong with a file of settings."""
    fail(f"{error}" if f"{error}".endswith("?") else f"{error}.")


def settled(
    request: type[Request], fields: Mapping[str, Any], profile: str | None, *, alone: bool = False
) -> dict[str, Any]:
    """Return the fields of a request, with what files set for those that are None.

    With `alone` only for these, else also for others. Say in one line what that is, and which
    variables go before a file. Exit if a file is wrong.
    """
    settings = in_effect(profile)
    if not settings.sources:
        return dict(fields)
    return _completed(settings, request, fields, alone=alone)


def _completed(
    settings: "Settings", request: type[Request], fields: Mapping[str, Any], *, alone: bool
) -> dict[str, Any]:
    """Return the fields of a request with what these settings give, and say what that is."""
    from rich.console import Console
    from rich.text import Text

    from mull.errors import ConfigurationError, RequestError
    from mull.settings_file import COMMANDS

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
        said = ", ".join(brief(name, one.value) for name, one in used.items())
        console = Console(stderr=True)
        line = Text(f"settings of {', '.join([*files, *by])}: {said}", "dim")
        console.print(line, soft_wrap=not console.is_terminal)
    for name, (variable, value) in variables_of(command).items():
        if name in known and name not in used and fields.get(name) == value:
            tell(f"Note: {variable} goes before the {name} of {origin_of(known[name])}.")
    return whole


def brief(name: str, value: Any) -> str:
    """Show a short value; of a text or a list only that it is set."""
    words = words_of(value).strip()
    long = isinstance(value, list | dict) or len(words) > SHORT_COLUMNS or "\n" in words
    return name if long else f"{name} {terminal_safe(words, SHORT_COLUMNS)}"


def words_of(value: Any) -> str:
    """Write a value as a file has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def variables_of(command: str) -> dict[str, tuple[str, Any]]:
    """Return what the environment sets of a command's fields: the variables and their values."""
    from mull.settings_file import settable

    options = {name: one for name, one in settable(command).items() if one and one.variable}
    given = {name: os.environ.get(one.variable or "") for name, one in options.items()}
    return {
        name: (one.variable or "", words.split() if one.form == "models" else words)
        for name, one in options.items()
        if (words := given[name])
    }


def origin_of(setting: "Setting") -> str:
    """Name the file, the line and the profile of a value."""
    by = f" (profile {setting.profile})" if setting.profile else ""
    return f"{setting.source.shown}, line {setting.line}{by}"


def names_of(field: str) -> Callable[[], list[str]]:
    """Make what lists the names that `profile`, `preset` or `criteria` takes, for a shell."""

    def listed() -> list[str]:
        from mull.errors import ConfigurationError

        with suppress(ConfigurationError):
            known = settings_here(None)
            return list(known.tables("profiles")) if field == "profile" else known.names(field)
        return []

    return listed


# Fields that take names from files of settings, beside Mull's own.
NAMED = ("preset", "criteria")
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="MULL_PROFILE",
        autocompletion=names_of("profile"),
        help="A profile of mull.toml; `mull settings` lists them.",
    ),
]


def show_all(context: typer.Context, wanted: bool) -> None:
    """Print the help with every option, and end."""
    if wanted and not context.resilient_parsing:
        context.meta[WHOLE] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all", is_eager=True, callback=show_all, help="Show every option, and exit."
    ),
    COMMON,
]


class Wanted(NamedTuple):
    """How a result is printed, and what it is held to.

    `required` is a score, or an answer's bars; `out` is a file for the answer, otherwise printed.
    With `accept_any` a doubtful result is as good as any other. `web_ui` adds the run's address.
    Without `details` an answer is printed with what matters most, in five lines.
    """

    as_json: Json = False
    accept_any: AcceptAny = False
    required: Bars | float | None = None
    out: Path | None = None
    web_ui: bool = True
    details: bool = True


class New(NamedTuple):
    """Under which id a run is started, even if one is done (`again`), and whether to detach."""

    workflow_id: NewId = None
    again: Again = False
    detach: Detach = False
    profile: Profile = None


def place_of(kind: Literal["folder", "file"], given: str) -> str:
    """Return the absolute path of a folder or a file, which the worker looks for on its own."""
    # Only the worker can tell whether it has it, and where its links lead.
    place = os.path.abspath(Path(given).expanduser())  # noqa: PTH100
    if not (Path(place).is_dir() if kind == "folder" else Path(place).is_file()):
        tell(f"Note: there is no {kind} {place} on this machine; the worker looks on its own.")
    return place


def parse_json(kind: Any, expected: str, text: str) -> Any:
    """Read JSON as this type. Raises ValueError, which says what is expected."""
    try:
        value = unambiguous_json(text)
        # None is an option that is not given.
        return TypeAdapter(kind).validate_python({} if value is None else value)
    except ValueError as error:
        at, cause = "", error.__cause__
        if isinstance(cause, json.JSONDecodeError):
            at = f" (line {cause.lineno}, column {cause.colno})"
        raise ValueError(f"{explain(error)}{at}; expected {expected}") from None


def _read_json(kind: Any, expected: str, option: str, path: Path) -> Any:
    """Read a file of JSON as this type, or exit with an error."""
    text = read_file(option, path)
    try:
        return parse_json(kind, expected, text)
    except ValueError as error:
        fail(f"{option}: {path}: {error}.")


def parse_settings(settings: Iterable[str]) -> SamplingOptions:
    """Read NAME=VALUE, each once, but for `stop`. Raises ValueError."""
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError("expected NAME=VALUE, such as top_p=0.9")
        # Each stop is one more text to stop at.
        given[name] = (*given.get(name, ()), value) if name == "stop" else value
    return SamplingOptions(**given)


def _read_settings(option: str, settings: Sequence[str]) -> SamplingOptions:
    try:
        return parse_settings(settings)
    except ValueError as error:
        fail(f"{option}: {explain(error)}.")


def split_names(given: str) -> list[str]:
    """List names that stand between commas."""
    return [name.strip() for name in given.split(",") if name.strip()]


class Reader(NamedTuple):
    """What an option takes, and what reads it, where its field is not typed as it stands."""

    read: Callable[..., Any]
    kind: Any = str
    metavar: str | None = None


READERS: dict[Form | None, Reader] = {
    "folder": Reader(lambda _, given: given and place_of("folder", given), str, "FOLDER"),
    "text": Reader(read_file, Path, "FILE"),
    "texts": Reader(
        lambda option, paths: [read_file(option, path) for path in paths], list[Path], "FILE"
    ),
    "json": Reader(_read_json, Path, "FILE"),
    "settings": Reader(_read_settings, list[str], "NAME=VALUE"),
    "names": Reader(lambda _, given: split_names(given), str, "A,B"),
    "model": Reader(lambda _, given: given, str, "MODEL"),
    "models": Reader(lambda _, given: given, list[str], "MODEL"),
}


def takes_fields(
    request: type[Frozen], *names: str, under: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's `**fields` by one option for each field that its request declares one of.

    With `names`, only for these, and `under` is what they stand under in its help. Help, range,
    choices and default come from the field. An option that is not given is None; one in a form of
    its own is read. A parameter that is a tuple, such as `new: New`, is replaced by those of the
    tuple's fields that are options.
    """
    schema = request.model_json_schema(by_alias=False)["properties"]
    declared = options_of(request)
    added, readers = list[inspect.Parameter](), dict[str, Callable[[Any], Any]]()
    for name in names or declared:
        option, flag = declared[name], option_of(request, name)
        own = option.heading if "default" in schema[name] else REQUIRED
        added += _options(name, schema[name], option, flag, under or own)
        if option.form == "json":
            kind = request.model_fields[name].annotation
            readers[name] = partial(_read_json, kind, option.expected, flag)
        elif option.form is not None:
            readers[name] = partial(READERS[option.form].read, flag)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command)
        kept, tuples = list[inspect.Parameter](), dict[str, Any]()
        for one in own.parameters.values():
            if hasattr(one.annotation, "_fields"):
                tuples[one.name] = one.annotation
            elif one.kind is not one.VAR_KEYWORD and one.name != "help_all":
                kept.append(one.replace(kind=one.KEYWORD_ONLY))
        grouped = {name: _grouped(kind) for name, kind in tuples.items()}

        taken = {name: [one.name for one in group] for name, group in grouped.items()}
        called = called_with(command, tuples, taken, readers)
        options = [*kept, *added, *(one for group in grouped.values() for one in group)]
        options = [*sorted(options, key=_place), _parameter("help_all", HelpAll, default=False)]
        called.__signature__ = own.replace(parameters=options)  # type: ignore[attr-defined]
        common = {one.name for one in options if COMMON in one.annotation.__metadata__}
        called.common = common  # type: ignore[attr-defined]
        return called

    return decorate


def _place(parameter: inspect.Parameter) -> int:
    """Return the place of a parameter in help: by its heading, a command's own ones first."""
    heading = parameter.annotation.__metadata__[0].rich_help_panel
    return HEADINGS.index(heading) if heading in HEADINGS else -1


def _grouped(kind: Any) -> list[inspect.Parameter]:
    """List the fields of a tuple that are options."""
    found = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated:
            shown = copy(hint.__metadata__[0])
            shown.rich_help_panel = LAST
            shows: list[Any] = [one for one in hint.__metadata__ if one == COMMON]
            own: Any = get_args(hint)[0]
            default = kind._field_defaults[name]
            found.append(_parameter(name, Annotated[own, shown, *shows], default))
    return found


def value_of(option: Option, field: Mapping[str, Any]) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return the part of a field's schema that says what a value is, and the choices, if any."""
    value = next((one for one in field.get("anyOf", ()) if one.get("type") != "null"), field)
    known = option.choices or value.get("enum", ())
    return value, known or ([value["const"]] if "const" in value else [])


def _options(
    name: str, field: Mapping[str, Any], option: Option, flag: str, panel: str
) -> list[inspect.Parameter]:
    """Make a field's option, and a hidden one if it has a second name.

    What follows `__` in a parameter's name is not part of the field's.
    """
    value, choices = value_of(option, field)
    few = "|".join(choices)
    kind: Any
    if option.form is not None:
        _, kind, metavar = READERS[option.form]
    elif choices:
        # A file of settings may have other names.
        kind = str if name in NAMED else Literal[*choices]
        metavar = few if len(few) <= FEW else "CHOICE"
    else:
        kind, metavar = TYPES[value["type"]], "" if value["type"] == "boolean" else None
    off = kind is bool and field.get("default")
    shown = typer.Option(
        f"--no-{name.replace('_', '-')}" if off else flag,
        help=help_of(option, field, value, choices if len(few) > FEW else ()),
        metavar=metavar,
        envvar=option.variable,
        autocompletion=names_of(name) if name in NAMED else None,
        rich_help_panel=panel,
    )
    made = {f"{name}__off" if off else name: shown}
    if kind is bool:
        # What turns it back, where a file of settings has turned it.
        back = f"--{'' if off else 'no-'}{name.replace('_', '-')}"
        made[name if off else f"{name}__off"] = typer.Option(back, hidden=True)
    if option.also:
        made[f"{name}__also"] = typer.Option(option.also, hidden=True)
    shows = [COMMON] if option.common or panel == REQUIRED else []
    return [_parameter(known, Annotated[kind | None, one, *shows]) for known, one in made.items()]


def _parameter(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=kind)


def help_of(
    option: Option, field: Mapping[str, Any], value: Mapping[str, Any], choices: Sequence[str]
) -> str:
    """Format a field's description with its choices or its range, and its default."""
    off, _, description = field["description"].rpartition("Off: ")
    said = [off + description[:1].upper() + description[1:].rstrip(".")]
    lowest, highest = value.get("minimum"), value.get("maximum")
    default = field.get("default", value.get("default"))
    if choices:
        said.append(f"one of {', '.join(choices)}")
    elif lowest is not None and highest is not None and highest <= 100:
        said.append(f"{lowest:g} to {highest:g}")
    if default is not None and not isinstance(default, bool | list | dict):
        said.append(f"{default if isinstance(default, str) else format(default, ',')} by default")
    if option.also:
        said.append(f"or {option.also}")
    return "; ".join(said) + "."
