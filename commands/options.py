"""A command's options: from the fields of its request, from files, and from tuples of options."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import typer
from pydantic import TypeAdapter

from commands.command import Exit, Form, called_with, checked, fail, option_of, read_file, tell
from mull.agents.memory import PlannerExample, ReflectorExample
from mull.request import EarlierMessage, Frozen, SamplingOptions, explain, unambiguous_json
from mull.sampling.probability import CalibrationMap

# Second names, which help only mentions.
ALIASES = {
    "rule": "--entropy-mode",
    "score_threshold": "--confidence-threshold",
    "call_timeout_seconds": "--call-timeout-seconds",
}
VARIABLES = {"model": "MULL_MODEL"}
# Choices of at most this many characters are the metavar; longer ones go into the help.
FEW = 24
TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool}


def place_of(kind: Literal["folder", "file"], given: str) -> str:
    """Return the absolute path of a folder or a file, which the worker looks for on its own."""
    # Only the worker can tell whether it has it, and where its links lead.
    place = os.path.abspath(Path(given).expanduser())  # noqa: PTH100
    if not (Path(place).is_dir() if kind == "folder" else Path(place).is_file()):
        tell(f"Note: there is no {kind} {place} on this machine; the worker looks on its own.")
    return place


def _read_json(kind: Any, expected: str, option: str, path: Path) -> Any:
    """Read a file of JSON as this type, or exit with an error that says what is expected."""
    text = read_file(option, path)
    try:
        return TypeAdapter(kind).validate_python(unambiguous_json(text))
    except ValueError as error:
        fail(f"{option}: {path}: {explain(error)}; expected {expected}.", Exit.USAGE)


def _read_settings(option: str, settings: Sequence[str]) -> Any:
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            fail(f"{option}: expected NAME=VALUE, such as top_p=0.9.", Exit.USAGE)
        # Each stop is one more text to stop at.
        given[name] = (*given.get(name, ()), value) if name == "stop" else value
    return checked(SamplingOptions, given, option)


def _split(_: str, given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


def _examples(kind: type[PlannerExample | ReflectorExample]) -> Form:
    expected = f"a list of objects with {' and '.join(kind.model_fields)}"
    read = partial(_read_json, list[kind], expected)  # type: ignore[valid-type] # a type of the table
    return Form(read, said="Your own, as JSON, in place of the environment's.")


MESSAGES = '[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]'
INSTRUCTIONS = Form(read_file, said="Your own, in place of those that are there.")
FORMS = {
    "docs": Form(lambda _, given: given and place_of("folder", given), str, None),
    "system": Form(read_file),
    "context": Form(
        lambda option, paths: [read_file(option, path) for path in paths],
        list[Path],
        said="A text that it is about, quoted as material; can be repeated.",
    ),
    "messages": Form(
        partial(_read_json, tuple[EarlierMessage, ...], MESSAGES),
        said=f"Earlier messages as JSON, the oldest first: {MESSAGES}.",
    ),
    "options": Form(
        _read_settings,
        list[str],
        "NAME=VALUE",
        "A sampling option, if the provider has it; can be repeated. One of"
        f" {', '.join(SamplingOptions.model_fields)}.",
    ),
    "prompt_template": Form(read_file),
    "calibration": Form(partial(_read_json, CalibrationMap, "a map of `mull replay --calibrate`")),
    "tools": Form(
        _split,
        str,
        "A,B",
        "The tools that may be used, by name or group (python, documents, a server); all of the"
        ' worker by default, none with --tools "".',
    ),
    "packages": Form(_split, str, "A,B"),
    "planner_instructions": INSTRUCTIONS,
    "reflector_instructions": INSTRUCTIONS,
    "planner_examples": _examples(PlannerExample),
    "reflector_examples": _examples(ReflectorExample),
}


def takes_fields(
    request: type[Frozen], panels: Mapping[str, Sequence[str]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's `**fields` by one option for each field named in `panels`.

    Help, range, choices and default come from the field. An option that is not given is None; one
    in a form of its own is read. A parameter that is a tuple, such as `new: New`, is replaced by
    those of the tuple's fields that are options.
    """
    schema = request.model_json_schema(by_alias=False)["properties"]
    named = [(name, panel) for panel, names in panels.items() for name in names]
    added = [option for name, panel in named for option in _options(name, schema[name], panel)]
    forms = {name: FORMS[name] for name, _ in named if name in FORMS}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command)
        kept, tuples = list[inspect.Parameter](), dict[str, Any]()
        for one in own.parameters.values():
            if hasattr(one.annotation, "_fields"):
                tuples[one.name] = one.annotation
            elif one.kind is not one.VAR_KEYWORD:
                kept.append(one.replace(kind=one.KEYWORD_ONLY))
        grouped = {name: _grouped(kind) for name, kind in tuples.items()}
        taken = {name: [one.name for one in options] for name, options in grouped.items()}
        called = called_with(command, tuples, taken, forms)
        options = [one for group in grouped.values() for one in group]
        called.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*kept, *options, *added]
        )
        return called

    return decorate


def _grouped(kind: Any) -> list[inspect.Parameter]:
    """List the fields of a tuple that are options."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        _parameter(name, hint, kind._field_defaults[name])
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    ]


def _options(name: str, field: Mapping[str, Any], panel: str) -> list[inspect.Parameter]:
    """Make a field's option, and a hidden one if it has a second name.

    What follows `__` in a parameter's name is not part of the field's.
    """
    if form := FORMS.get(name):
        said = form.said or _help(name, field, field, ())
        option = typer.Option(
            option_of(name), help=said, metavar=form.metavar, rich_help_panel=panel
        )
        return [_parameter(name, Annotated[form.kind | None, option])]
    value = next((one for one in field.get("anyOf", ()) if one.get("type") != "null"), field)
    choices = value.get("enum", [value["const"]] if "const" in value else [])
    kind: Any = Literal[*choices] if choices else TYPES[value["type"]]
    off = kind is bool and field.get("default")
    few = "|".join(choices)
    option = typer.Option(
        f"--no-{name.replace('_', '-')}" if off else option_of(name),
        help=_help(name, field, value, choices if len(few) > FEW else ()),
        metavar=few if 0 < len(few) <= FEW else "CHOICE" if choices else None,
        envvar=VARIABLES.get(name),
        rich_help_panel=panel,
    )
    made = {f"{name}__off" if off else name: option}
    if name in ALIASES:
        made[f"{name}__also"] = typer.Option(ALIASES[name], hidden=True)
    return [_parameter(known, Annotated[kind | None, one]) for known, one in made.items()]


def _parameter(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=kind)


def _help(
    name: str, field: Mapping[str, Any], value: Mapping[str, Any], choices: Sequence[str]
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
    if "default" not in field:
        said.append("required")
    elif default is not None and not isinstance(default, bool | list):
        said.append(f"{default} by default")
    if name in ALIASES:
        said.append(f"or {ALIASES[name]}")
    return "; ".join(said) + "."
