"""Reads OpenAI's requests for a chat completion as Mull's own, and refuses what is not taken; pure.

The model's name says the loop, and after a colon the model behind it: `mull/ask:openai/gpt-5-mini`.
Settings of the loop, and of the reply, stand under `mull`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mull.loops import CRITIQUE, MULTIPATH, SAMPLING, TURN, Loop
from mull.request import Framing, Request, near_name, parse_request, short_name
from mull.request import unambiguous_json as read_json

PREFIX = "mull/"
SERVED = {f"{PREFIX}{loop.command}": loop for loop in (SAMPLING, CRITIQUE, TURN, MULTIPATH)}

# Fields for somebody else's books: they change no answer.
UNUSED = frozenset(
    {"user", "safety_identifier", "metadata", "store", "service_tier", "prompt_cache_key"}
)
# What is not taken but for these values, which some clients always send.
ONLY: dict[str, tuple[list[Any], str]] = {
    "n": ([1], "a run gives one answer"),
    "tools": ([[]], "the tools are the worker's: choose among them in mull.tools"),
    "functions": ([[]], "the tools are the worker's: choose among them in mull.tools"),
    "tool_choice": (["none", "auto"], "the model chooses among the worker's tools"),
    "parallel_tool_calls": ([True, False], "expected true or false"),
    "response_format": ([{"type": "text"}], "ask for the form in a message"),
    "logprobs": ([False], "an answer of several calls has none"),
    "top_logprobs": ([0], "an answer of several calls has none"),
    "logit_bias": ([{}], "it is not passed on"),
    "modalities": ([["text"]], "answers are texts"),
}
# OpenAI's fields, each with the field of a request that it becomes, or is a part of.
PASSED = {
    "temperature": "temperature", "seed": "seed", "reasoning_effort": "think_level",
    "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens",
    **dict.fromkeys(("stop", "top_p", "frequency_penalty", "presence_penalty"), "options"),
}  # fmt: skip
EFFORTS = {"none": "off", "minimal": "off"}
OWN = frozenset({"model", "messages", "stream", "stream_options", "mull"})
# What `mull` has besides the fields of the loop's request, and which of those it may not have.
REPLY = ("require", "cancel_on_disconnect", "accept_waiting")
ABOVE = frozenset({"system", "messages", "model", "stream", "carried"})
WORDS = {str: "a string", bool: "true or false", dict: "an object", list: "a list"}


class RefusedError(Exception):
    """A request that is not taken: the HTTP status, and OpenAI's parts of an error.

    `again_seconds` is when the client may ask again; None: that would not help, or pay twice.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        again_seconds: float | None = None,
        mull: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.again_seconds = status, again_seconds
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.error = {"message": message, "type": kind, "param": param, "code": code}
        self.document = {"error": self.error, **({"mull": dict(mull)} if mull else {})}


def refused(param: str | None, said: str, code: str | None = None) -> RefusedError:
    """Make the refusal of a field, by its name."""
    return RefusedError(400, f"{param}: {said}" if param else said, param=param, code=code)


@dataclass(frozen=True)
class Chat:
    """A chat request as it was understood.

    `model` is the name that the client gave. With `require` a doubtful answer is an error, and
    without `accept_waiting` so is a run that waits for a person.
    """

    model: str
    loop: Loop
    request: Any
    stream: bool = False
    include_usage: bool = False
    require: bool = False
    cancel_on_disconnect: bool = False
    accept_waiting: bool = False

    @property
    def models(self) -> set[str]:
        """The names, as a client writes them, of all models that the run may ask."""
        asked = {model for model, _ in self.request.most_calls()}
        loop = self.model.partition(":")[0]
        return {self.model, *(f"{loop}:{model}" for model in asked if model)}


def read_chat(data: bytes) -> Chat:
    """Read a request for a chat completion. Raises RefusedError."""
    try:
        given = read_json(data)
    except ValueError as error:
        raise RefusedError(400, f"The body can't be read: {error}.") from None
    if not isinstance(given, dict):
        raise RefusedError(400, "The body is not a JSON object.")
    given = {name: value for name, value in given.items() if value is not None}
    name = _typed(given, "model", str, None)
    loop_name, _, behind = name.partition(":")
    if (loop := SERVED.get(loop_name)) is None:
        said = f"Unknown model {short_name(name)!r}: take {', '.join(SERVED)}, or one of these"
        said += f" with a model behind it, as in {PREFIX}ask:openai/NAME."
        raise RefusedError(404, said, param="model", code="model_not_found")
    _refuse_unknown(given, loop)
    settings = _typed(given, "mull", dict, {})
    stream = _typed(given, "stream", bool, False)
    options = _typed(given, "stream_options", dict, {})
    fields = _fields(given, loop, {x: y for x, y in settings.items() if x not in REPLY})
    fields |= {"model": behind} if behind else {}
    fields |= {"stream": True} if stream and "stream" in loop.request.model_fields else {}
    return Chat(
        model=name,
        loop=loop,
        request=_request(loop, fields, settings, given),
        stream=stream,
        include_usage=_typed(options, "include_usage", bool, False, "stream_options."),
        **{name: _typed(settings, name, bool, False, "mull.") for name in REPLY},
    )


def _typed(given: Mapping[str, Any], name: str, kind: type, usual: Any, within: str = "") -> Any:
    value = given.get(name, usual)
    if type(value) is not kind:
        said = "missing" if value is None else f"expected {WORDS[kind]}"
        raise refused(f"{within}{name}", said)
    return value


def _refuse_unknown(given: Mapping[str, Any], loop: Loop) -> None:
    """Raise RefusedError for the first field that is not taken."""
    for name, value in given.items():
        if name in ONLY:
            allowed, why = ONLY[name]
            if not any(type(value) is type(one) and value == one for one in allowed):
                raise refused(name, f"not taken; {why}", "unsupported_parameter")
        elif name in PASSED and PASSED[name] not in loop.request.model_fields:
            said = f"{PREFIX}{loop.command} does not take it"
            raise refused(name, said, "unsupported_parameter")
        elif name not in OWN | UNUSED | PASSED.keys():
            taken = loop.request.model_fields.keys() - ABOVE | {*REPLY}
            said = near_name(name, OWN | PASSED.keys() | ONLY.keys())
            said = f'. Put it into "mull": {{"{name}": ...}}' if name in taken else said
            raise refused(short_name(name), f"no such field{said}", "unknown_parameter")


def _fields(given: Mapping[str, Any], loop: Loop, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the fields of the loop's request: from the messages, OpenAI's fields, and `mull`."""
    for name in settings:
        if name in ABOVE or name == loop.request.subject_field:
            raise refused(f"mull.{name}", "give it outside of mull, as OpenAI does")
    fields = {**settings, **_messages(_typed(given, "messages", list, None), loop)}
    for name, field in PASSED.items():
        value = given.get(name)
        if name == "reasoning_effort" and isinstance(value, str):
            value = EFFORTS.get(value, value)
        if name == "stop" and isinstance(value, str):
            value = [value]
        if value is None:
            continue
        if field == "options":
            fields[field] = {**_typed(fields, field, dict, {}, "mull."), name: value}
        elif field in fields:
            raise refused(name, "given twice")
        else:
            fields[field] = value
    return fields


def _messages(given: list[Any], loop: Loop) -> dict[str, Any]:
    """Part the messages into the last one, the system's and the earlier ones."""
    read = [_message(one, f"messages[{place}]") for place, one in enumerate(given)]
    system = [text for role, text in read if role == "system"]
    rest = read[len(system) :]
    if any(role == "system" for role, _ in rest):
        raise refused("messages", "system messages have to come first")
    if not rest or rest[-1][0] != "user":
        raise refused("messages", "the last one has to be the user's")
    earlier = [{"role": role, "content": text} for role, text in rest[:-1]]
    if (system or earlier) and not issubclass(loop.request, Framing):
        said = f"{PREFIX}{loop.command} takes one message of the user, and no others"
        raise refused("messages", said)
    return {
        loop.request.subject_field: rest[-1][1],
        **({"system": "\n\n".join(system)} if system else {}),
        **({"messages": earlier} if earlier else {}),
    }


def _message(given: Any, place: str) -> tuple[str, str]:
    """Return the role of a message, and its text."""
    if not isinstance(given, dict):
        raise refused(place, "expected an object")
    role, content = given.get("role"), given.get("content")
    more = [name for name, value in given.items() if value not in (None, [], "")]
    unknown = [name for name in more if name not in {"role", "content", "name", "refusal"}]
    role = "system" if role == "developer" else role
    if not isinstance(role, str) or role not in {"system", "user", "assistant"}:
        raise refused(f"{place}.role", "expected system, developer, user or assistant")
    if unknown:
        raise refused(f"{place}.{short_name(unknown[0])}", "not taken", "unsupported_parameter")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = list[str]()
    for number, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        at = f"{place}.content[{number}]" if isinstance(content, list) else f"{place}.content"
        if isinstance(kind, str) and kind != "text":
            said = f"{short_name(kind)} is not taken, only text"
            raise refused(at, said, "unsupported_parameter")
        if kind != "text" or not isinstance(part.get("text"), str):
            raise refused(at, "expected a text")
        texts.append(part["text"])
    return role, "\n".join(texts)


def _request(
    loop: Loop, fields: dict[str, Any], settings: Mapping[str, Any], given: Mapping[str, Any]
) -> Request:
    """Check the fields as Mull checks any request; an error names the field as the client did."""
    try:
        request: Request = parse_request(loop.request, json.dumps(fields))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = [short_name(str(part)) for part in first["loc"]]
        said = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if first["type"] == "extra_forbidden":
            known = {*loop.request.model_fields, *REPLY} if len(place) == 1 else ()
            said = f"no such field{near_name(place[-1], known)}"
        raise refused(_named(place, loop, settings, given), said) from None
    except ValueError as error:
        raise refused(None, str(error)) from None
    return request


def _named(
    place: list[str], loop: Loop, settings: Mapping[str, Any], given: Mapping[str, Any]
) -> str | None:
    """Name a request's field as the client knows it; None if the whole request is at fault."""
    if not place:
        return None
    if place[0] == "options" and place[1:] and place[1] in given:
        return place[1]
    if place[0] in settings:
        return ".".join(["mull", *place])
    if place[0] in {loop.request.subject_field, "messages", "system"}:
        return "messages"
    return next((name for name in PASSED if PASSED[name] == place[0] and name in given), place[0])
