"""The checks of `doctor`: a worker's models, documents, tools, sandbox, packages and telemetry."""

import asyncio
import os
import platform
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from activities.doctor import Check, State
from activities.language_model.port import (
    MODELS,
    LanguageModel,
    ModelCall,
    ModelError,
    SampleError,
    TransientModelError,
    UnreachableError,
)
from activities.training.port import VARIABLE as ARTIFACTS
from mull.connection import CALIBRATION
from mull.telemetry import CONTENT_VARIABLE, ENDPOINT, calibration_maps, captures_content
from mull.text import tally_words

if TYPE_CHECKING:
    from activities.sandbox.selftest import Examined
    from activities.tools.activity import ToolActivities

# Enough for one word, and little to pay.
CALL_TOKENS = 16
CALL_SECONDS = 40.0


async def worker_checks() -> list[Check]:
    """Make the checks of every worker."""
    endpoint = await asyncio.to_thread(telemetry_checks, os.environ)
    return [*package_checks(), *calibration_checks(os.environ), *endpoint]


async def answering_checks() -> list[Check]:
    """Make the checks of a worker that calls models and searches documents."""
    return [*model_checks(os.environ), *document_checks(os.environ)]


async def call_checks(model: LanguageModel) -> list[Check]:
    """Call each model that is set, once."""
    names = map(os.environ.get, ("MULL_MODEL", "MULL_JUDGE_MODEL"))
    return [await call_check(model, name) for name in dict.fromkeys(names) if name]


async def call_check(model: LanguageModel, name: str) -> Check:
    """Make one small call of a model, and say how long it took."""
    call = ModelCall(
        model=name,
        prompt="Reply with one word: ready",
        temperature=0.0,
        seed=0,
        max_output_tokens=CALL_TOKENS,
        timeout_seconds=CALL_SECONDS,
        keep_cut=True,
    )
    began = time.monotonic()
    try:
        # An empty reply is also an answer: some models think first.
        with suppress(SampleError):
            await model.complete(call)
    except ModelError as error:
        passes = isinstance(error, TransientModelError) and not isinstance(error, UnreachableError)
        state: State = "warning" if passes else "wrong"
        return Check("models", "call", state, f"{name} can't be called: {error}.")
    return Check("models", "call", "ok", f"{name} answers in {time.monotonic() - began:.1f} s")


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
# Each role's option, and what happens without its variable.
ROLES = {
    "model": ("MULL_MODEL", "--model", "A run that names no model uses the worker's."),
    "judge": ("MULL_JUDGE_MODEL", "--judge", "Drafts are judged by the model that wrote them."),
}
# These may work without a variable of their own.
KEYLESS = frozenset({"hosted_vllm", "ollama", "vertex_ai", "bedrock"})


def model_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check the models that are set here, and the keys of their providers."""
    known = [name for names in PROVIDERS.values() for name in names if environment.get(name)]
    said = f"set: {', '.join(known)}" if known else "No key of a known provider is set."
    do = () if known else ("Set one, such as OPENAI_API_KEY, in the worker's environment.",)
    keys = Check("models", "keys", "ok" if known else "warning", said, do)
    if not known and _provider(environment.get("MULL_MODEL", "")) == "embedded":
        keys = Check("models", "keys", "ok", "an embedded model needs no key")
    listed = environment.get(MODELS, "any model") or "no other models"
    named = Check("models", "named", "ok", f"requests may name {listed} ({MODELS})")
    return [*(_model(role, environment) for role in ROLES), named, keys]


def _model(role: str, environment: Mapping[str, str]) -> Check:
    """Check one model; a provider that is not listed here may still be one of LiteLLM's."""
    variable, option, without = ROLES[role]
    name = environment.get(variable, "").strip()
    provider = _provider(name)
    state: State = "warning"
    if not name:
        said = f"{variable} is not set. {without}"
        do = f"Set {variable} where the worker runs, or give {option} with each run."
    elif provider == "embedded" and role == "model":
        said, do = f"{name} is a toy.", "Set MULL_MODEL to a real model."
    elif provider == "embedded":
        return Check("models", role, "ok", name)
    elif provider not in PROVIDERS:
        said = f"{name} was not checked: doctor does not know its provider."
        do = "Try it with a run: LiteLLM may know it."
    elif provider in KEYLESS or any(environment.get(key) for key in PROVIDERS[provider]):
        return Check("models", role, "ok", name)
    else:
        said = f"No provider key for {name}."
        do = f"Set {' or '.join(PROVIDERS[provider])} in the worker's environment."
    return Check("models", role, state, said, (do,))


def _provider(model: str) -> str:
    before, slash, _ = model.partition("/")
    if slash:
        return before
    return next((name for start, name in BARE.items() if model.startswith(start)), "")


NEEDED = ("temporalio", "pydantic", "litellm", "opentelemetry-sdk", "typer", "rich", "pypdf")
MISSING = "is not installed"


def package_checks() -> list[Check]:
    """Name Python's version and the packages'."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    found = ", ".join(f"{name} {_version(name)}" for name in NEEDED)
    state: State = "wrong" if MISSING in found else "ok"
    return [
        Check("installation", "python", "ok", python),
        Check("installation", "packages", state, found),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return MISSING


DOCUMENTS = "MULL_DOCUMENTS"


def document_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check each folder that MULL_DOCUMENTS names, and the folder of their indexes."""
    given = [folder for folder in environment.get(DOCUMENTS, "").split(os.pathsep) if folder]
    if given:
        return [*map(_folder, given), _index(environment)]
    said = f"{DOCUMENTS} is not set: `agent --docs` is refused."
    do = f"Set it where the worker runs, to folders separated by {os.pathsep}."
    return [Check("documents", "folders", "warning", said, (do,))]


def _folder(given: str) -> Check:
    path = Path(given)
    state: State = "warning"
    if not path.is_dir():
        state, said = "wrong", f"{given} is not a folder on the worker's machine."
        do = f"Create it, or remove it from {DOCUMENTS}."
    elif not os.access(path, os.R_OK | os.X_OK):
        state, said = "wrong", f"{given} can't be read by this user."
        do = "Give the worker's user permission to read it."
    elif path.resolve() == Path("/"):
        said, do = f"{given} is the whole machine.", "Name only folders that may be cited."
    elif not path.is_absolute():
        said = f"{given} depends on where the worker is started: {path.resolve()} from here."
        do = "Use an absolute path."
    else:
        return Check("documents", "folders", "ok", f"{given} can be read")
    return Check("documents", "folders", state, said, (do,))


def _index(environment: Mapping[str, str]) -> Check:
    from activities.documents.folder import cache_folder

    place = cache_folder(environment)
    nearest = next(folder for folder in (place, *place.parents) if folder.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Check("documents", "index", "ok", f"indexes are kept under {place}")
    said, do = f"Indexes can't be kept under {place}.", "Set MULL_CACHE to a writable folder."
    return Check("documents", "index", "wrong", said, (do,))


def calibration_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check that the folder in MULL_CALIBRATION has a map; no checks if it is not set."""
    folder = environment.get(CALIBRATION)
    if not folder:
        return []
    if found := sum(1 for _ in calibration_maps(folder)):
        return [Check("calibration", "maps", "ok", f"{tally_words(found, 'map')} in {folder}")]
    lacks = "has no map" if Path(folder).is_dir() else "is not a folder on the worker's machine"
    said = f"{folder}, which {CALIBRATION} names, {lacks}: every probability is unknown."
    do = f"Fit one with `mull replay --calibrate` and put it there, or unset {CALIBRATION}."
    return [Check("calibration", "maps", "warning", said, (do,))]


async def tool_checks(tools: "ToolActivities", environments: Sequence[str] = ()) -> list[Check]:
    """List tools as a turn does, starting each MCP server, rules for calls, and environments."""
    from activities.tools.port import ListTask

    found = await tools.list_tools(ListTask(docs=""))
    groups = Counter(tool.group or "functions" for tool in found.tools)
    listed = [
        Check("tools", name, "ok", tally_words(some, "tool")) for name, some in groups.items()
    ]
    do = "Turns go on without them: see the file that --mcp names, where this worker runs."
    missing = [Check("tools", "missing", "warning", f"{said}.", (do,)) for said in found.warnings]
    rules = f"{tally_words(len(found.rules), 'rule')} for calls"
    if not found.rules:
        rules = "no rules for calls (--approve): calls that may write ask a person, others run"
    fitting = Check("tools", "rules", "ok", rules)
    if idle := [one.tool for one in found.rules if not any(tool.fits(one) for tool in found.tools)]:
        said = f"{rules}; no tool here has the name, or the arguments, of: {', '.join(idle)}."
        do = "Such a rule has no effect. The tools of an MCP server are named SERVER__TOOL."
        fitting = Check("tools", "rules", "warning", said, (do,))
    return [*listed, *missing, fitting, *environment_checks(environments)]


def environment_checks(names: Sequence[str]) -> list[Check]:
    """List the environments of a queue, and say whether files of tasks may be read."""
    folders = os.environ.get("MULL_TASKS")
    read = f"tasks are read from {folders}" if folders else "MULL_TASKS is not set: no task files"
    said = f"{', '.join(names)}; {read}"
    return [Check("environments", "agents", "ok", said)] if names else []


async def training_checks() -> list[Check]:
    """Check that this worker can write to the folder of trained models."""
    folder = os.environ.get(ARTIFACTS, "")
    if os.access(folder, os.W_OK | os.X_OK):
        return [Check("training", "artifacts", "ok", f"trained models are kept in {folder}")]
    said = f"{folder}, which {ARTIFACTS} names, can't be written by this user."
    do = "Give the worker's user permission to write there."
    return [Check("training", "artifacts", "wrong", said, (do,))]


PATIENCE_SECONDS = 30
ELSEWHERE = "Serve the other queues here (`mull-worker --queues mull,llm`), and code on Linux."


async def sandbox_checks(environments: Sequence[str] = ()) -> list[Check]:
    """Test the sandboxes with real programs, as a worker does when it starts."""
    # On another system its imports fail.
    try:
        from activities.sandbox.selftest import NoSandboxError, choose
    except ImportError:
        said = "No sandbox works on this system."
        return [Check("sandbox", "sandbox", "wrong", said, (ELSEWHERE,))]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            examined = await choose()
    except NoSandboxError as error:
        none = Check("sandbox", "sandbox", "wrong", "No code can run here.", (ELSEWHERE,))
        return [*(row for one in error.examined for row in sandbox_rows(one, "wrong")), none]
    except (TimeoutError, ValueError, OSError) as error:
        said = str(error) or f"The self-test took over {PATIENCE_SECONDS} s."
        do = "Try again, or set MULL_SANDBOX to another sandbox."
        return [Check("sandbox", "sandbox", "wrong", said, (do,))]
    rows = [row for one in examined for row in sandbox_rows(one, "warning")]
    return [*rows, *environment_checks(environments)]


def sandbox_rows(found: "Examined", failing: State) -> list[Check]:
    """List the checks that a sandbox passed, or name those that it failed."""
    if found.trouble:
        return [Check("sandbox", found.name, failing, found.trouble)]
    said = f"{found.version} passes its self-test"
    tried = [Check("sandbox", name, "ok", seen) for name, _, seen in found.findings]
    return [Check("sandbox", found.name, "ok", said), *tried]


CONNECT_SECONDS = 1.0
PORTS = {"http": 80, "https": 443}


def telemetry_checks(environment: Mapping[str, str]) -> list[Check]:
    """Check the endpoint of spans, and whether they contain prompts and replies."""
    content = Check("telemetry", "content", "ok", "prompts and replies are not recorded in spans")
    if captures_content(environment):
        said = f"Prompts and replies are recorded in spans ({CONTENT_VARIABLE})."
        do = "Unset it if this is not intended."
        content = Check("telemetry", "content", "warning", said, (do,))
    return [_endpoint(environment), content]


def _endpoint(environment: Mapping[str, str]) -> Check:
    given = environment.get(ENDPOINT, "")
    if not given:
        said = f"spans and metrics are not exported ({ENDPOINT} is not set)"
        return Check("telemetry", "endpoint", "ok", said)
    try:
        address = urlsplit(given)
        host, port = address.hostname or "", address.port or PORTS[address.scheme]
        # The address may contain a user name and a password: show neither.
        shown = f"{address.scheme}://{host}:{port}"
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except (ValueError, KeyError):
        said = f"{ENDPOINT} is not a URL such as http://127.0.0.1:4318."
        return Check("telemetry", "endpoint", "wrong", said, ("Set it to http://host:port.",))
    except OSError:
        said = f"Nothing listens at {shown}: spans and metrics are lost."
        do = f"Start a collector, or unset {ENDPOINT}. Mull sends OTLP over HTTP, not gRPC."
        return Check("telemetry", "endpoint", "warning", said, (do,))
    return Check("telemetry", "endpoint", "ok", f"spans and metrics go to {shown}")
