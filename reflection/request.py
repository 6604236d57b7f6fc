"""What every request and every result has in common."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """A value that never changes; an error about it names fields and never quotes the input."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Request(Frozen):
    """The one object that starts a workflow. Unknown fields are refused by name."""


class Record(Frozen):
    """A part of a history or a result.

    Fields of a newer version are ignored, so that an older worker or client still reads it.
    """

    model_config = ConfigDict(extra="ignore")


def explain(error: ValidationError) -> str:
    """Say in one line which fields are wrong and why, without quoting what was given."""
    return "; ".join(_explain(each["loc"], each["type"], each["msg"]) for each in error.errors())


def _explain(place: tuple[int | str, ...], kind: str, message: str) -> str:
    field = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"{field}: no such field"
    if kind == "missing":
        return f"{field}: missing"
    said = message.removeprefix("Value error, ")
    said = said.removeprefix("Input ").removeprefix("String ")
    return f"{field}: {said}" if field else said
