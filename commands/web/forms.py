"""Start a run: a request's own fields as a form, and a form that was sent as a request.

What a field is called, says and takes is read from where its command reads it. A field that names a
folder or a file of the worker is not offered: a text is typed or uploaded.
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from commands import start as started
from commands.command import options_of
from commands.lines import COMMANDS
from commands.options import (
    HEADINGS,
    help_of,
    parse_json,
    parse_settings,
    split_names,
    value_of,
)
from commands.reflexion import reflexion
from commands.turn import turn
from commands.web.rendering import page_of, render
from mull.client import new_id
from mull.errors import MullError
from mull.multipath.request import Limits
from mull.multipath.suite import FILE_BYTES
from mull.option import Option
from mull.request import PERSON_PRIORITY, explain, explain_part, short_name
from mull.text import spaced, terminal_safe

Kind = Literal["long", "texts", "line", "number", "choice", "switch"]
# The commands in the order of their tabs, each with the first sentence of its help.
SAID = {
    one.__name__: (one.__doc__ or "").partition("\n")[0]
    for one in (started.ask, started.reflect, started.agent, turn, reflexion)
}
# Fields for which a command has an option of its own, which reads a file.
UPLOADED = {
    "draft": Option("Draft", "text", common=True),
    "tests": Option("Code and its tests", "text", common=True),
}
CODING = ("tests", "packages", "entry")
LIMITS = "limits."
# Of one text, and of the fields and files of a form.
TEXT_BYTES, MOST_PARTS = 1_000_000, 300
# A field's name, where an error about the whole request begins with it.
NAMED = re.compile(r"([a-z_]+): ")
TESTS = re.compile(r"^[ \t]*(async )?(def test_|class Test)", re.MULTILINE)


class Field(NamedTuple):
    """A field of a form: what it is called and says, and how its value is given.

    A `long` text is typed or uploaded; of `texts` there may be several. `default` holds if
    it is left empty.
    """

    name: str
    help: str
    kind: Kind
    option: Option
    annotation: Any
    default: Any
    choices: Sequence[str]
    required: bool

    @property
    def label(self) -> str:
        """Its name in words."""
        return spaced(self.name.removeprefix(LIMITS))

    @property
    def common(self) -> bool:
        """Whether it stands before what is folded."""
        return self.required or self.option.common

    def read(self, text: str) -> Any:
        """Read what was typed. Raises ValueError."""
        match self.option.form:
            case "json":
                return parse_json(self.annotation, self.option.expected, text)
            case "settings":
                return parse_settings(line for line in text.splitlines() if line.strip())
            case "names":
                # "" is the empty list, as on the command line.
                return [name for one in split_names(text) if (name := one.strip('"'))]
            case "models":
                return text.replace(",", " ").split()
        return text if self.kind == "long" else text.strip()


class Filled(NamedTuple):
    """A form as it was sent: its values and what is wrong, by its fields; "" is the whole form."""

    values: dict[str, Any]
    errors: dict[str, str]
    request: Any = None


@cache
def form_of(command: str) -> tuple[Field, ...]:
    """List the fields of a command's form: what it is about first, the others by their headings."""
    kind = COMMANDS[command].request
    own = {name: one for name, one in UPLOADED.items() if name in kind.model_fields}
    about = Option("Task", None if kind.subject_field == "task" else "text")
    fields = [*_fields(kind, {kind.subject_field: about, **options_of(kind), **own})]
    if "limits" in kind.model_fields:
        fields += _fields(Limits, options_of(Limits), LIMITS)
    fields.sort(key=lambda one: (not one.required, HEADINGS.index(one.option.heading)))
    return tuple(fields)


def folded(fields: Sequence[Field], filled: Filled) -> list[tuple[str, list[Field], bool]]:
    """Group the fields that are not common by their headings, and say which group is open."""
    others = [one for one in fields if not one.common]
    groups = [(name, list(some)) for name, some in groupby(others, lambda one: one.option.heading)]
    used = {
        one.name
        for one in others
        if one.name in filled.errors
        or filled.values.get(one.name) not in ("", [], None, one.default)
    }
    return [(name, some, any(one.name in used for one in some)) for name, some in groups]


def _fields(
    kind: type[BaseModel], options: Mapping[str, Option], prefix: str = ""
) -> Iterator[Field]:
    """Yield the fields that these options declare, but for folders."""
    schema = kind.model_json_schema(by_alias=False)["properties"]
    for name, option in options.items():
        known, annotation = schema[name], kind.model_fields[name].annotation
        value, choices = value_of(option, known)
        if option.form == "folder" or any(
            options[other].form == "folder" for other in option.only_with or () if other in options
        ):
            continue
        shown: Kind = "choice" if choices else "line"
        if option.form is not None:
            forms: dict[str, Kind] = {"texts": "texts", "text": "long", "json": "long"}
            shown = {**forms, "settings": "long"}.get(option.form, "line")
        elif value.get("type") in {"integer", "number"}:
            shown = "number"
        elif value.get("type") == "boolean":
            shown = "switch"
        said = known.get("description", "")
        if said and shown != "switch":
            # A form has no flags.
            said = help_of(replace(option, also=""), known, value, ())
        default, needed = known.get("default"), "default" not in known
        yield Field(prefix + name, said, shown, option, annotation, default, choices, needed)


async def read_form(command: str, form: FormData) -> Filled:
    """Read a form as the request of a command, or say what is wrong with each field."""
    filled = Filled({}, {})
    known: dict[str, Any] = {}
    for field in form_of(command):
        texts = await _texts(field, form, filled.errors)
        if len(texts) > 1 and field.kind != "texts":
            filled.errors[field.name] = "typed and uploaded; give one of the two"
        # What was typed is shown again.
        given: Any = texts if field.kind == "texts" else "".join(texts[:1])
        filled.values[field.name] = given = bool(texts) if field.kind == "switch" else given
        if given in ("", [], field.default) or field.name in filled.errors:
            continue
        try:
            read = field.read(given) if isinstance(given, str) else given
        except ValueError as error:
            filled.errors[field.name] = explain(error)
            continue
        whole, dot, part = field.name.partition(".")
        known |= {whole: {**known.get(whole, {}), part: read}} if dot else {whole: read}
    if "tests" in known:
        _add_tests(known, filled.errors, form)
    return _checked(command, known, filled)


async def _texts(field: Field, form: FormData, errors: dict[str, str]) -> list[str]:
    """List the texts of a field, typed ones first; those that are empty are left out."""
    texts = []
    for part in form.getlist(field.name):
        # Browsers end typed lines with CRLF; a file stays as it is.
        text = part.replace("\r\n", "\n") if isinstance(part, str) else ""
        if not isinstance(part, str) and part.filename:
            try:
                text = (await part.read()).decode("utf-8")
            except UnicodeDecodeError:
                errors[field.name] = f"{terminal_safe(part.filename, 80)} is not UTF-8 text"
        texts.append(text)
    return [text for text in texts if text.strip()]


def _add_tests(known: dict[str, Any], errors: dict[str, str], form: FormData) -> None:
    """Name the file of tests, since its name says who runs it; tests are of code."""
    files = [one.filename for one in form.getlist("tests") if not isinstance(one, str)]
    typed = "test_code.py" if TESTS.search(known["tests"]) else "check.py"
    name = files[0] if files and files[0] else typed
    # What is too long is refused for that: to parse it takes memory and time.
    if len(known["tests"]) <= FILE_BYTES and (fault := started.python_fault(name, known["tests"])):
        errors["tests"] = f"not Python: {fault}"
    known["tests"] = {"name": name, "text": known["tests"]}
    known.setdefault("mode", "code")


def _checked(command: str, known: Mapping[str, Any], filled: Filled) -> Filled:
    """Make the request of these fields, or say of each field what is wrong with it."""
    errors, kind = filled.errors, COMMANDS[command].request
    for name in CODING:
        if known.get("mode") == "research" and name in known:
            errors.setdefault(name, "only for code, and can't be combined with the mode research")
    try:
        request = kind(**known)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            said = explain_part(one["loc"], one["type"], one["msg"])
            # The error is about a part with a field of its own, about a field, or about the whole.
            places = [".".join(map(str, one["loc"][:size])) for size in (2, 1)]
            places += NAMED.findall(said)
            name = next((place for place in places if place in filled.values), "")
            errors.setdefault(name, said.removeprefix(name).lstrip(".: "))
        return filled
    return filled if errors else filled._replace(request=request)


async def form(request: Request) -> Response:
    """Show the form of a command."""
    return _form_page(request, _command(request), Filled({}, {}), uuid.uuid4().hex)


async def start(request: Request) -> Response:
    """Start the run that a form asks for, once however often it is sent, and show it."""
    command, page = _command(request), page_of(request)
    async with request.form(
        max_files=MOST_PARTS, max_fields=MOST_PARTS, max_part_size=TEXT_BYTES
    ) as sent:
        filled, key = await read_form(command, sent), str(sent.get("key", ""))
    asked = filled.request
    if asked is None:
        return _form_page(request, command, filled, key, 422)
    digest = sha256(f"{key} {asked.model_dump_json()}".encode()).hexdigest()
    words = "" if page.encrypted else getattr(asked, asked.subject_field)
    try:
        await page.client.need_workers(COMMANDS[command].queues(asked))
        run = await page.client.begin(
            asked, new_id(command, words, digest), priority=PERSON_PRIORITY
        )
    except MullError as error:
        filled.errors[""] = str(error)
        return _form_page(request, command, filled, key, 422 if error.exit_code == 2 else 503)
    begun = run.description.run_id if run.description else run.handle.first_execution_run_id
    return RedirectResponse(f"/runs/{begun}", 303)


def _command(request: Request) -> str:
    command: str = request.path_params["command"]
    if command not in SAID:
        raise HTTPException(404, f"There is no form {short_name(command)}")
    if page_of(request).read_only:
        raise HTTPException(403, "This page only reads: it starts no run")
    return command


def _form_page(
    request: Request, command: str, filled: Filled, key: str, status: int = 200
) -> Response:
    fields = form_of(command)
    return render(
        request,
        "start.html.j2",
        status,
        command=command,
        commands=SAID,
        common=[one for one in fields if one.common],
        folded=folded(fields, filled),
        values=filled.values,
        errors=filled.errors,
        key=key,
    )


ROUTES = (
    Route("/start/{command}", form, methods=["GET"]),
    Route("/start/{command}", start, methods=["POST"]),
)
