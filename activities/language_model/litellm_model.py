"""Language models through LiteLLM, which only this file and the catalog import.

It resolves a model's name, and asks for a JSON schema, tools and thinking in the provider's way.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import httpx
import litellm
from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport

from activities.language_model import catalog
from activities.language_model.catalog import Route
from activities.language_model.errors import causes, one_line, read_error
from activities.language_model.exchange import EXCHANGE, Exchange, bounded, read_reply
from activities.language_model.port import (
    ASKED_AGAIN,
    MODELS,
    Abilities,
    Endpoint,
    ModelCall,
    ModelError,
    ModelReply,
    OnText,
    PermanentModelError,
    SampleError,
    TransientModelError,
    UnreachableError,
    may_name,
)
from mull.replies import MOST_REPLY_BYTES
from mull.request import CALL_SECONDS, NO_ADDRESS, call_seconds

litellm.suppress_debug_info = True
litellm.drop_params = False
# A cache would make all samples of a question equal, and their entropy 0.
litellm.cache = None


def _in_thread(
    request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]
) -> httpx.Response:
    """Send a call's request in a thread, which can't be cancelled, within the same bounds."""
    if (exchange := EXCHANGE.get()) is None:
        return send(request)
    exchange.begin(request)
    request.headers["Accept-Encoding"] = "identity"
    seconds = request.extensions.get("timeout", {}).get("read") or CALL_SECONDS
    until, body = time.monotonic() + seconds, b""
    with closing(send(request)) as response:
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MOST_REPLY_BYTES or time.monotonic() > until:
                raise ValueError("the reply is too large, or takes too long")
    # Without headers, httpx neither unpacks the body nor follows a redirect.
    return httpx.Response(response.status_code, content=body, request=request)


def _bind(transport: Any, name: str, bound: Callable[..., Any]) -> None:
    """Bound the requests and replies of all transports of this type."""
    send = getattr(transport, name)
    setattr(transport, name, lambda self, request: bound(request, partial(send, self)))


# Every provider's client sends by one of these, by LiteLLM's settings and variables, and would
# follow redirects. Only one provider has a client of its own.
_bind(LiteLLMAiohttpTransport, "handle_async_request", bounded)
_bind(httpx.AsyncHTTPTransport, "handle_async_request", bounded)
_bind(httpx.HTTPTransport, "handle_request", _in_thread)
_UNBOUNDED = "aiohttp_openai"

EFFORT = "reasoning_effort"
JSON_OBJECT: dict[str, Any] = {"type": "json_object"}
_FORM_REFUSED = frozenset({400, 422})
# Some say 404 if the model's servers don't take tools.
_TOOLS_REFUSED = _FORM_REFUSED | {404}
# Another form would not help.
_NOT_THE_FORM = frozenset({"ContextWindowExceededError"})
# Claude refuses these while it thinks.
_NOT_WHILE_THINKING = frozenset({"temperature", "top_p", "top_k"})
_BOUNDS = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems",
        "minProperties", "maxProperties",
    }
)  # fmt: skip


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Build OpenAI's strict `response_format` for a JSON schema."""
    named = {"name": "reply", "strict": True, "schema": schema}
    return {"type": "json_schema", "json_schema": named}


def without_bounds(schema: Any) -> Any:
    """Copy a JSON schema without bounds on values: Anthropic and OpenAI answer some with 400."""
    if isinstance(schema, list):
        return [without_bounds(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    # The names inside these are the user's own.
    return {
        name: {key: without_bounds(inner) for key, inner in value.items()}
        if name in {"properties", "$defs"} and isinstance(value, dict)
        else without_bounds(value)
        for name, value in schema.items()
        if name not in _BOUNDS
    }


class LiteLLMModel:
    """A language model that LiteLLM reaches: `default_model`, or the one a call names.

    `endpoints` redirects names to OpenAI-compatible servers. A whole call ends within its time-out,
    and sends only parameters that the provider knows.
    """

    def __init__(
        self, default_model: str | None, endpoints: Mapping[str, Endpoint] = MappingProxyType({})
    ) -> None:
        self._default_model = default_model
        self._endpoints = dict(endpoints)
        # Forms of calls that a model refused, where it then replied to a looser one.
        self._refused: set[tuple[str, str]] = set()

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make one call; if its form or its tools are refused, repeat it in a looser form.

        Raises one of the three kinds of ModelError, and nothing else.
        """
        route, tried = self._route(call.model), set[tuple[str, str]]()
        with _explained(route, call.shown, 0):
            call, seconds = _bounded(route, call)
            forms = _forms(route, call)
        until = asyncio.get_running_loop().time() + seconds
        forms = [form for form in forms if (route.name, _form_name(form)) not in self._refused]
        while True:
            form = forms[len(tried)]
            try:
                reply = await _send(route, call, form, seconds, until)
            except PermanentModelError as error:
                statuses = _TOOLS_REFUSED if "tools" in form else _FORM_REFUSED
                refused = error.status in statuses and error.kind not in _NOT_THE_FORM
                if len(tried) + 1 == len(forms) or not refused:
                    raise
                tried.add((route.name, _form_name(form)))
            else:
                self._refused |= tried
                return reply

    def abilities(self, model: str | None) -> Abilities:
        """Look up a model's abilities in LiteLLM's list. Raises PermanentModelError."""
        route = self._route(model)
        with _explained(route, "", 0):
            least = catalog.thinking_budget(catalog.planned(route, "minimal"))
            known = catalog.lists(route, "tools"), bool(catalog.planned(route, "low")), least
            return Abilities(*known, *catalog.least_effort(route))

    def _route(self, asked: str | None) -> Route:
        name = asked or self._default_model
        if not name:
            raise PermanentModelError(
                "no model: set MULL_MODEL where the worker runs, or name one with --model",
                "NoModel",
            )
        if asked and not may_name(asked, os.environ):
            named = os.environ[MODELS] or "its own model alone"
            line = f"{MODELS}, where this worker runs, lets requests name {named}, not {asked}"
            raise PermanentModelError(line, "ModelNotAllowed")
        if "://" in name:
            raise PermanentModelError(f"{name!r}: {NO_ADDRESS}", "BadRequestError", 400)
        try:
            if endpoint := self._endpoints.get(name) or catalog.reflector(name):
                route = Route(name, f"openai/{endpoint.model}", "openai", endpoint)
            else:
                route = Route(name, name, litellm.get_llm_provider(name)[1], None)
        except Exception as error:
            line = f"no provider for the model {name!r}: put one first, as in openai/{name}"
            raise PermanentModelError(line, type(error).__name__, 400) from None
        _refuse_credentials(route)
        if route.provider == _UNBOUNDED:
            line = f"replies to {name!r} would not be bounded: name it openai/… instead"
            raise PermanentModelError(line, "BadRequestError", 400)
        return route


def _bounded(route: Route, call: ModelCall) -> tuple[ModelCall, float]:
    """Give a call without a limit its model's, and return its time-out too."""
    if (limit := call.max_output_tokens) is None:
        limit = catalog.output_limit(route, call.usual.tokens, call.thinking_tokens)
    seconds = call.timeout_seconds or call_seconds(limit + call.thinking_tokens, call.usual.seconds)
    return call.model_copy(update={"max_output_tokens": limit}), seconds


async def _send(
    route: Route, call: ModelCall, form: dict[str, Any], seconds: float, until: float
) -> ModelReply:
    """Make one call, once, with the options that the provider knows; name those left out."""
    # A model that is asked for one object does not write text to show.
    on_text = None if call.tools and "tools" not in form else call.on_text
    with _explained(route, call.shown, seconds, on_text):
        thinking = _thinking(route, call) if call.thinking_tokens else {}
        thinking = {name: form[name] for name in form if name == EFFORT} or thinking
        claude = thinking and "thinking" in catalog.planned(route, call.effort)
        barred = _NOT_WHILE_THINKING if claude else ()
        wanted = {"temperature": call.temperature, "seed": call.seed, **call.options.model_dump()}
        given = {name: value for name, value in wanted.items() if value is not None}
        options = {
            name: value
            for name, value in given.items()
            if name not in barred and catalog.knows(route, name, value, thinking)
        }
        left_out = [name for name in given if name not in options]
        if call.effort and not thinking:
            left_out.append(EFFORT)
        limit = (call.max_output_tokens or 0) + (call.thinking_tokens if thinking else 0)
        messages = call.messages or ({"role": "user", "content": call.prompt},)
        if call.tools and "tools" not in form:
            left_out.append("tools")
            messages = call.without_tools or messages
        if call.reply_schema is not None and form.get("response_format") in (None, JSON_OBJECT):
            left_out.append("json_schema" if "response_format" in form else "response_format")
        async with asyncio.timeout_at(until):
            response = await litellm.acompletion(
                messages=list(messages),
                max_tokens=limit,
                **route.arguments(seconds),
                **options,
                **(thinking | form),
            )
        known: dict[str, Any] = {"model": route.name, "provider": route.system}
        known |= {"left_out": tuple(left_out), "max_output_tokens": limit}
        return read_reply(response, call, _cost(response, route), **known)


def _forms(route: Route, call: ModelCall) -> list[dict[str, Any]]:
    """List the forms that a call can have, the strictest first, and an empty one at the end.

    The least effort of thinking is a part of the form, since LiteLLM does not know who refuses it.
    """
    least = _thinking(route, call) if not call.thinking_tokens else {}
    forms: list[dict[str, Any]] = (
        [_tools_form(route, call)] if catalog.lists(route, "tools") else []
    )
    if not call.tools:
        formats = _reply_formats(route, call.prompt, call.reply_schema)
        forms = [{"response_format": one} for one in formats]
    return [form | more for form in (*forms, {}) for more in ([least, {}] if least else [{}])]


def _form_name(form: dict[str, Any]) -> str:
    """Name a form that a model refused: by its tools, since one of them may be at fault."""
    tools = [tool["function"]["name"] for tool in form.get("tools", ())]
    effort = form.get(EFFORT, "")
    return f"tools: {' '.join(tools)} {effort}" if tools else str(form)


def _tools_form(route: Route, call: ModelCall) -> dict[str, Any]:
    described = {"name", "description", "parameters"}
    tools = [
        {"type": "function", "function": tool.model_dump(include=described)} for tool in call.tools
    ]
    # Otherwise LiteLLM looks for MCP servers of its own, by a package that it does not bring.
    form: dict[str, Any] = {"tools": tools, "_skip_mcp_handler": True}
    if call.tool_choice != "auto" and catalog.knows(route, "tool_choice", call.tool_choice):
        form["tool_choice"] = call.tool_choice
    return form


def _thinking(route: Route, call: ModelCall) -> dict[str, Any]:
    """Build the provider's own setting for thinking: a budget in tokens, or a level; or nothing.

    After tool calls Claude accepts its conversation only with its thoughts, which are not kept: so
    the replies that follow a tool's result are made without thinking.
    """
    if call.effort is None:
        return {}
    sent = catalog.planned(route, call.effort)
    calls = [one.get("tool_calls") for one in call.messages if one["role"] == "assistant"]
    if not sent or ("thinking" in sent and calls and calls[-1]):
        return {}
    if catalog.thinking_budget(sent) is None or not call.thinking_tokens:
        return {EFFORT: call.effort}
    return {"thinking": {"type": "enabled", "budget_tokens": call.thinking_tokens}}


def _reply_formats(
    route: Route, prompt: str, schema: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """List the formats that a reply can be asked for in, the strictest first."""
    if schema is None:
        return []
    if route.endpoint:
        return [schema_format(schema)]
    if not catalog.knows(route, "response_format", JSON_OBJECT):
        return []
    strict = schema_format(without_bounds(schema))
    # If the prompt does not ask for JSON, OpenAI refuses json_object, and others never end.
    loose = [JSON_OBJECT] if "json" in prompt.lower() else []
    return [*([strict] if catalog.takes_schemas(route, strict) else []), *loose]


def _cost(response: Any, route: Route) -> float | None:
    """Return LiteLLM's price of a call in US dollars. Its 0 can also mean an unknown price."""
    if route.endpoint:
        return 0.0 if route.endpoint.free else None
    # Computing it again would take a twelfth of the call's CPU.
    return response._hidden_params.get("response_cost") or None


def _refuse_credentials(route: Route) -> None:
    """Raise PermanentModelError if the address of a route has a password in it."""
    addresses = {"the address": route.endpoint.api_base} if route.endpoint else route.addresses
    for name in addresses:
        if "@" in addresses[name]:
            line = f"{name} of {route.name} has a user or a password in it, which is not sent:"
            line += " leave them out, and give the key in its own variable"
            raise PermanentModelError(line, "AuthenticationError")


@contextmanager
def _explained(
    route: Route, prompt: str, timeout_seconds: float, on_text: OnText | None = None
) -> Iterator[None]:
    """Turn a call's exception into a ModelError that names the address and its answer."""
    exchange = Exchange(on_text, route.stray)
    token = EXCHANGE.set(exchange)
    try:
        yield
    except SampleError as error:
        if error.kind in ASKED_AGAIN:
            error.args = (_placed(f"answered {exchange.status}: {error}", exchange, route),)
        raise
    except ModelError:
        raise
    except TimeoutError:
        at = f"{route.name} at" if exchange.address else route.name
        line = _placed(f"did not reply within {timeout_seconds:g} seconds", exchange, route)
        raise TransientModelError(f"{at} {line}", "Timeout") from None
    except Exception as error:
        failure = _read_failure(error, exchange, route, prompt)
        failure.answered = exchange.status > 0
        raise failure from None
    finally:
        EXCHANGE.reset(token)


def _placed(line: str, exchange: Exchange, route: Route) -> str:
    """Put the address before a line, if there was an exchange."""
    address = exchange.address and one_line(exchange.address, "", route.secrets())
    return f"{address} {line}".lstrip()


# The command to start if nothing listens, by provider; for others, the server of the model.
_SERVERS = {"ollama": "`ollama serve`", "ollama_chat": "`ollama serve`"}


def _unreachable(exchange: Exchange, route: Route, error: Exception) -> UnreachableError:
    """Name the address that can't be connected to, and say what to do."""
    url = httpx.URL(exchange.address)
    at = f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"
    line = f"{at} {exchange.failed}: check that it is running, and that the address is right"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes(error)):
        server = _SERVERS.get(route.provider, f"the server of {route.name}")
        line = f"nothing listens at {at}: start {server} there, then ask again"
    return UnreachableError(one_line(line, "", route.secrets()), at)


def _read_failure(error: Exception, exchange: Exchange, route: Route, prompt: str) -> ModelError:
    if exchange.refused == "address":
        line = f"{route.name} has no address, so its calls would go to OpenAI:"
        line += f" set {route.variable('api_base')} where this worker runs"
        return PermanentModelError(line, "BadRequestError")
    if exchange.unreachable is not None:
        return _unreachable(exchange, route, exchange.unreachable)
    refused = exchange.status if exchange.status >= 400 else None
    failure = read_error(error, prompt, route.secrets(), refused)
    if (exchange.refused or failure.kind == "AuthenticationError") and not route.endpoint:
        missing = litellm.validate_environment(route.target)["missing_keys"]
        named = [name for name in missing if name.endswith("_API_KEY")] or missing
        if named := named or [route.variable("api_key")] * bool(exchange.refused):
            line = f"no key for {route.name}: set {' or '.join(named)} where the worker runs"
            return PermanentModelError(line, "AuthenticationError", failure.status)
    if exchange.address:
        line = one_line(exchange.tell(str(failure)), prompt, route.secrets())
        failure.args = (_placed(line, exchange, route),)
    if 300 <= exchange.status < 400:
        return PermanentModelError(str(failure), "Redirect", exchange.status)
    if exchange.lost:
        # It was paid for, and the next reply would be as large.
        return SampleError(str(failure), "TooLarge")
    return failure
