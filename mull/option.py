"""How a request's field is given on the command line; each field says so in its own declaration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, TypeAlias

from pydantic import Field

# What options stand under in the help of a command, in this order: first what is a loop's own.
Heading: TypeAlias = Literal[
    "Task", "Episodes", "Reflections", "Memory", "Rollouts", "Training", "Path", "Documents",
    "Tools", "Reflection", "Answers", "When to stop", "Draft", "Judges and criteria", "Guardrails",
    "When to revise", "How long to revise", "Whether to reflect", "Code and its tests",
    "Each run of the code in the sandbox", "Model", "Prompts", "What the model is asked with",
    "Bounds", "A person's review",
]  # fmt: skip
# How a value is given that is not typed as it stands: the path of a folder or of a text, of several
# texts, or of JSON; NAME=VALUE several times; names with commas between them; or names of models.
Form: TypeAlias = Literal[
    "folder", "text", "texts", "json", "settings", "names", "model", "models"
]  # fmt: skip
# With which values of another field a field has an effect; None: with any that is set.
OnlyWith: TypeAlias = Mapping[str, Sequence[object] | None]


@dataclass(frozen=True)
class Option:
    """How a field is given; its description is the help.

    `flag` is its name where that is not the field's, and `also` a second one. `expected` says what
    a file of JSON holds, and `variable` is one of the environment. A `common` option is one of the
    dozen that most people need of a command, which `--help` shows; `--help-all` has the rest. Of a
    field that takes any text, `choices` are those that a command takes.
    """

    heading: Heading
    form: Form | None = None
    only_with: OnlyWith | None = None
    expected: str = ""
    flag: str = ""
    also: str = ""
    variable: str | None = None
    common: bool = False
    choices: tuple[str, ...] = ()

    def __call__(self, _schema: Any) -> None:
        """Add nothing to the field's JSON Schema, where pydantic keeps an option."""


def option(
    heading: Heading, default: Any, description: str, form: Form | None = None, **known: Any
) -> Any:
    """Make a field that is an option; `known` are parts of an `Option`, and bounds of the field.

    A default of `...` is none.
    """
    own = {one.name: known.pop(one.name) for one in fields(Option) if one.name in known}
    given = Option(heading, form, **own)
    return Field(default, description=description, json_schema_extra=given, **known)


model_option = partial(option, "Model")
bound_option = partial(option, "Bounds")
review_option = partial(option, "A person's review")
