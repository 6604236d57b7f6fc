"""Options: those built from a request's fields, and those that several commands share."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from reflection.run import Frozen

Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]
NewId = Annotated[str | None, typer.Option("--id", help="The workflow's id.")]
Detach = Annotated[bool, typer.Option("--detach", help="Return the id at once.")]
BatchId = Annotated[str | None, typer.Option("--id", help="The batch's id.")]
Estimate = Annotated[bool, typer.Option("--estimate", help="Print the estimated cost and exit.")]
Yes = Annotated[bool, typer.Option("--yes", help="Start without asking.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

# Options whose names differ from their fields' names.
FLAGS = {
    "rule": ("--rule", "--entropy-mode"),
    "score_threshold": ("--score-threshold", "--confidence-threshold"),
    "call_timeout_seconds": ("--call-timeout", "--call-timeout-seconds"),
    "review_timeout_seconds": ("--review-timeout",),
}
VARIABLES = {"model": "MULL_MODEL"}
# Choices of at most this many characters are the metavar; longer ones go into the help.
FEW = 24
TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool}


def takes_fields(
    request: "type[Frozen]", panels: Mapping[str, Sequence[str]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's `**fields` by one option for each field named in `panels`.

    Help, range, choices and default come from the field. An option that is not given is None.
    """
    schema = request.model_json_schema(by_alias=False)["properties"]
    added = [
        _parameter(name, schema[name], panel) for panel, names in panels.items() for name in names
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command)
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        command.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*(one.replace(kind=one.KEYWORD_ONLY) for one in kept), *added]
        )
        command.__annotations__ = {
            **command.__annotations__,
            **{one.name: one.annotation for one in added},
        }
        return command

    return decorate


def option_of(field: str) -> str:
    """Return the option for a request's field."""
    return FLAGS.get(field, (f"--{field.replace('_', '-')}",))[0]


def _parameter(name: str, field: Mapping[str, Any], panel: str) -> inspect.Parameter:
    value = next((one for one in field.get("anyOf", ()) if one.get("type") != "null"), field)
    flags = FLAGS.get(name, (f"--{name.replace('_', '-')}",))
    kind = TYPES[value["type"]]
    if kind is bool and field.get("default"):
        flags = (f" /--no-{name}",)
    few = "|".join(value.get("enum", [value["const"]] if "const" in value else []))
    option = typer.Option(
        *flags,
        help=_help(field, value, choices=len(few) > FEW),
        metavar=few if 0 < len(few) <= FEW else None,
        envvar=VARIABLES.get(name),
        rich_help_panel=panel,
    )
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _help(field: Mapping[str, Any], value: Mapping[str, Any], *, choices: bool) -> str:
    """Format a field's description with its choices or its range, and its default."""
    off, _, description = field["description"].rpartition("Off: ")
    said = [off + description[:1].upper() + description[1:].rstrip(".")]
    lowest, highest, default = (value.get(name) for name in ("minimum", "maximum", "default"))
    default = field.get("default", default)
    if choices:
        said.append(f"one of {', '.join(value['enum'])}")
    elif lowest is not None and highest is not None and highest <= 100:
        said.append(f"{lowest:g} to {highest:g}")
    if default is not None and not isinstance(default, bool | list):
        said.append(f"{default} by default")
    return "; ".join(said) + "."
