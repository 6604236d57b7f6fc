"""The options for what a model is asked with, which turn files into fields of a request."""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter

from commands.command import Exit, add_options, checked, fail, read_file
from reflection.framing import EarlierMessage, SamplingOptions
from reflection.request import explain, unambiguous_json

MESSAGES_FORM = '[{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]'

_option = partial(typer.Option, rich_help_panel="What the model is asked with")
_file = partial(_option, metavar="FILE")


def takes_framing(command: Callable[..., None]) -> Callable[..., None]:
    """Add --system, --context, --messages and --set to a command: `ask`, `reflect` and `turn`.

    It stands above `takes_fields`. The command's `**fields` then have `system`, `context`,
    `messages` and `options`, for a request with a `Framing`.
    """
    added = list(inspect.signature(_fields).parameters.values())

    @wraps(command)
    def called(**given: Any) -> None:
        fields = _fields(**{one.name: given.pop(one.name, None) for one in added})
        command(**given, **fields)

    return add_options(command, called, added)


def _fields(
    *,
    system: Annotated[Path | None, _file(help="A system message of your own.")] = None,
    context: Annotated[
        list[Path] | None,
        _file(help="A text that it is about, quoted as material; can be repeated."),
    ] = None,
    messages: Annotated[
        Path | None, _file(help=f"Earlier messages as JSON, the oldest first: {MESSAGES_FORM}.")
    ] = None,
    options: Annotated[
        list[str] | None,
        _option(
            "--set",
            help="A sampling option, if the provider has it; can be repeated. One of"
            f" {', '.join(SamplingOptions.model_fields)}.",
            metavar="NAME=VALUE",
        ),
    ] = None,
) -> dict[str, Any]:
    """Read the files and settings, or exit with an error."""
    given: dict[str, Any] = {}
    for setting in options or ():
        name, equals, value = setting.partition("=")
        if not equals:
            fail("--set: expected NAME=VALUE, such as top_p=0.9.", Exit.USAGE)
        # Each stop is one more text to stop at.
        given[name] = (*given.get(name, ()), value) if name == "stop" else value
    return {
        "system": None if system is None else read_file("--system", system),
        "context": [read_file("--context", path) for path in context or ()],
        "messages": None if messages is None else _messages(messages),
        "options": checked(SamplingOptions, given, "--set"),
    }


def _messages(path: Path) -> tuple[EarlierMessage, ...]:
    text = read_file("--messages", path)
    try:
        return TypeAdapter(tuple[EarlierMessage, ...]).validate_python(unambiguous_json(text))
    except ValueError as error:
        fail(f"--messages: {path}: {explain(error)}; expected {MESSAGES_FORM}.", Exit.USAGE)
