"""A worker's options, and its adapters: models, documents, tools, sandbox, training, webhook."""

import asyncio
import contextlib
import importlib.util
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import typer
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.worker import (
    FixedSizeSlotSupplier,
    ResourceBasedSlotConfig,
    ResourceBasedSlotSupplier,
    ResourceBasedTunerConfig,
    WorkerTuner,
)

from activities.doctor import DEPLOYMENT
from activities.environments.port import Environment, Named, environments_in
from activities.language_model import port as models
from activities.language_model.layers import ObservedModel, PacedModel
from activities.sandbox import port as sandboxes
from activities.sandbox.port import Sandbox, SandboxError
from activities.tools.activity import ToolActivities
from activities.tools.builtin import calculate, current_time, python_tool
from activities.tools.functions import functions_of, tools_in
from activities.tools.port import Library, ToolServer
from activities.training import port as training
from activities.webhook import WebhookActivities
from commands.command import Exit, fail, flag, run_page, wrong_usage
from mull.errors import ConfigurationError
from mull.multipath.request import Limits
from mull.queues import PURPOSES
from mull.request import explain, parse_request
from mull.text import EXTRA
from mull.turn.approval import ToolRule

LIMITS = "MULL_SANDBOX_LIMITS"
CEILING = Limits(wall_seconds=60, cpu_seconds=60)
POST_SECONDS = 10.0
WEBHOOK, WEBHOOK_SECRET = "MULL_WEBHOOK", "MULL_WEBHOOK_SECRET"

# Where tuned reflectors are served.
REFLECTORS = ("127.0.0.1", 8091)
QUEUES = {name.removeprefix("mull-"): name for name in PURPOSES}
# The options that only a worker of this queue takes.
OPTIONS_OF = {
    "mull": ("nexus",),
    "tools": ("tools", "environments", "mcp", "approve"),
    "train": ("reflector_address", "base"),
}
HELP = """
Serve Mull's task queues until interrupted.

MULL_MODEL (any LiteLLM name) answers, with its provider's key in the environment. MULL_JUDGE_MODEL
judges drafts; without it, MULL_MODEL does.

Example:

    MULL_MODEL=openai/gpt-5-mini mull-worker --queues llm

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage, 3 no server.
"""

logger = logging.getLogger("mull.worker")


class Address(NamedTuple):
    """Where to listen, as a numeric address and a port."""

    host: str
    port: int


class Queues(tuple[str, ...]):
    """Task queues by their short names."""

    __slots__ = ()


def _queues(text: str) -> Queues:
    names = [name.strip().removeprefix("mull-") for name in text.split(",") if name.strip()]
    if not names or not set(names) <= set(QUEUES):
        raise typer.BadParameter(f"expected one or more of {', '.join(QUEUES)}, comma-separated")
    return Queues(names)


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise typer.BadParameter("expected a number above 0")
    return rate


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise typer.BadParameter("expected HOST:PORT, such as 0.0.0.0:9464 or [::]:9464")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise typer.BadParameter(f"{host} is not known: {error.strerror}") from None
    return Address(str(found[0][4][0]), int(port))


_file, _module = partial(typer.Option, metavar="FILE"), partial(typer.Option, metavar="MODULE")
_listen = partial(typer.Option, metavar="HOST:PORT", parser=_address)


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker; `queues` are all of them where none are chosen."""

    queues: Annotated[
        Queues | None,
        typer.Option(
            parser=_queues,
            metavar="QUEUES",
            help=f"Comma-separated: {', '.join(QUEUES)}. All by default, but train only where its"
            " extra is installed and MULL_ARTIFACTS is set.",
        ),
    ] = None
    tools: Annotated[
        list[str] | None,
        _module(help="A module, or a Python file, with tools for turns; can be repeated."),
    ] = None
    environments: Annotated[
        list[str] | None,
        _module(help="A module, or a Python file, with environments for agents; can be repeated."),
    ] = None
    mcp: Annotated[Path | None, _file(help="MCP servers, in the usual mcpServers shape.")] = None
    approve: Annotated[Path | None, _file(help="Rules for tool calls, a JSON list.")] = None
    nexus: Annotated[bool, flag("--nexus", help="Serve the Nexus service mull as well.")] = False
    reflector_address: Annotated[
        Address | None,
        _listen(
            help="Serve tuned reflectors here by OpenAI's interface, to whoever can connect;"
            f" {REFLECTORS[0]}:{REFLECTORS[1]} by default."
        ),
    ] = None
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="A folder or Hugging Face name of a model to serve too; can be repeated.",
        ),
    ] = None
    traces: Annotated[Path | None, _file(help="Write spans to this file, as JSON.")] = None
    calls_per_second: Annotated[
        float | None,
        typer.Option(
            parser=_rate, metavar="N", help="The most model calls a second of all workers."
        ),
    ] = None
    health: Annotated[
        Address | None,
        _listen(help="Answer GET /healthz (alive) and /readyz (every queue is polled) here."),
    ] = None
    metrics: Annotated[Address | None, _listen(help="Serve Prometheus metrics here.")] = None
    log: Annotated[Literal["text", "json"], typer.Option(help="How the log is written.")] = "text"
    build_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help=f'Serve as this version of deployment "{DEPLOYMENT}".'),
    ] = None

    def __post_init__(self) -> None:
        """Exit where the options do not fit together."""
        for queue, options in OPTIONS_OF.items():
            given = [f"--{name.replace('_', '-')}" for name in options if getattr(self, name)]
            if given and queue not in (self.queues or QUEUES):
                fail(f"{', '.join(given)}: only for a worker of the queue {queue}.", Exit.USAGE)
        if self.build_id == "":
            fail("--build-id is empty.", Exit.USAGE)


def parse(arguments: Sequence[str]) -> WorkerOptions:
    """Read the options of a worker; help and wrong usage end the process."""
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
    )
    names = {"help_option_names": ["-h", "--help"]}
    app.command("mull-worker", help=HELP, context_settings=names)(WorkerOptions)
    try:
        options = app(args=list(arguments), prog_name="mull-worker", standalone_mode=False)
    except typer.TyperException as error:
        options = wrong_usage(error, typer.main.get_command(app))
    if not isinstance(options, WorkerOptions):
        raise SystemExit(options)
    return options


def supposed(_: str | None) -> models.Abilities:
    """Suppose that a model takes tools, and has no setting for how it thinks."""
    return models.Abilities(tools=True, effort=False)


class Adapters(NamedTuple):
    """The adapters for models and for documents on this machine.

    `abilities` tells how a model takes tools and thinks, without a call of it.
    """

    model: models.LanguageModel | None = None
    retriever: Library | None = None
    abilities: Callable[[str | None], models.Abilities] = supposed


@contextlib.contextmanager
def adapters(
    queues: Sequence[str], default: str | None, calls_per_second: float | None = None
) -> Iterator[Adapters]:
    """Build the adapters that these queues need; start the embedded model if it is used."""
    if not {"llm", "tools"}.intersection(queues):
        yield Adapters()
        return
    # These imports take seconds; `--help` and tests with their own model do not need them.
    from activities.documents.folder import FolderRetriever

    with contextlib.ExitStack() as stack:
        retriever = FolderRetriever.from_environment(os.environ)
        stack.callback(retriever.close)
        known = Adapters(None, retriever)
        if "llm" in queues:
            from activities.language_model.embedded import EmbeddedModel
            from activities.language_model.litellm_model import LiteLLMModel

            endpoints = {}
            if default == EmbeddedModel.name:
                endpoints[default] = stack.enter_context(EmbeddedModel()).endpoint
            called = LiteLLMModel(default, endpoints)
            model = PacedModel(ObservedModel(called, default), default, calls_per_second)
            known = Adapters(model, retriever, called.abilities)
        yield known


def toolbox(options: WorkerOptions, library: Library | None) -> ToolActivities:
    """Gather the tools that the options name beside the built-in ones, and the rules for calls.

    Raises ConfigurationError, which names the file and the field.
    """
    rules: tuple[ToolRule, ...] = ()
    servers: Sequence[ToolServer] = ()
    path: Path | None = None
    try:
        marked = [function for module in options.tools or () for function in tools_in(module)]
        functions = functions_of(calculate, current_time, python_tool(None), *marked)
        if path := options.approve:
            rules = parse_request(tuple[ToolRule, ...], path.read_bytes())
        if path := options.mcp:
            # The client takes a second to import.
            if importlib.util.find_spec("mcp") is None:
                raise ConfigurationError(f"--mcp needs mcp: {EXTRA.format('mcp')}")
            from activities.tools.servers import read_servers

            servers = read_servers(path.read_bytes(), os.environ)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {explain(error)}" if path else str(error)) from None
    return ToolActivities(functions, servers, library, rules)


def environments(
    queues: Sequence[str], modules: Sequence[str], library: Library | None, sandbox: Sandbox | None
) -> list[Named]:
    """Gather the built-in environments, and those in these modules. Raises ConfigurationError."""
    made: list[Named] = []
    if "tools" in queues:
        # What they need is imported with their first task, and may not be there.
        from activities.environments.process import Apart
        from activities.environments.puzzles import Puzzles
        from activities.environments.textworld_games import TextWorldGames

        kinds: tuple[type[Environment], ...] = (Puzzles, TextWorldGames)
        made += [Named(kind.name, partial(Apart, kind)) for kind in kinds]
    if sandbox is not None:
        from activities.environments.code import code_tasks

        made.append(Named("code", code_tasks(sandbox, os.environ)))
    if library is not None:
        from activities.environments.documents import document_tasks

        made.append(Named("documents", document_tasks(library, os.environ)))
    try:
        made += [named for module in modules for named in environments_in(module)]
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    names = [named.name for named in made]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigurationError(f"two environments have the name {min(twice)}")
    return made


async def confined(queues: Sequence[str]) -> Sandbox | None:
    """Choose the sandbox for untrusted code, if these queues need one; None if there is none.

    Raises SandboxError if no sandbox passes its self-test and there is no other queue to serve,
    and ConfigurationError.
    """
    if "code" not in queues:
        return None
    from activities.sandbox.selftest import LACKING, choose

    try:
        given = os.environ.get(LIMITS)
        ceiling = Limits.model_validate_json(given) if given else CEILING
        *_, chosen = await choose(ceiling)
    except ValidationError as error:
        raise ConfigurationError(f"{LIMITS}: {explain(error)}") from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    except SandboxError as error:
        if set(queues) == {"code"}:
            raise
        logger.warning("%s is not served: %s", sandboxes.TASK_QUEUE, error)
        return None
    logger.info("sandbox: %s", chosen.described)
    if LACKING:
        logger.warning("programs and their tests have %s", LACKING)
    assert chosen.sandbox is not None  # noqa: S101 - it passed
    return chosen.sandbox


def slots(most: int) -> WorkerTuner:
    """Take up to so many programs, and one at a time while memory is short or every core is busy.

    Tasks beyond that wait in the queue, where another worker may take them.
    """
    resources = ResourceBasedTunerConfig(target_memory_usage=0.8, target_cpu_usage=1.0)
    bounds = ResourceBasedSlotConfig(1, most, ramp_throttle=timedelta())
    others = FixedSizeSlotSupplier(most)
    return WorkerTuner.create_composite(
        workflow_supplier=others,
        activity_supplier=ResourceBasedSlotSupplier(bounds, resources),
        local_activity_supplier=others,
        nexus_supplier=others,
    )


def servable(queues: Collection[str], *, chosen: bool) -> list[str]:
    """Leave the queue for training out where this worker lacks what it needs, and say so.

    Raises ConfigurationError where the queues were chosen.
    """
    folder = os.environ.get(training.VARIABLE)
    # Found, and not imported: that takes seconds.
    if None in map(importlib.util.find_spec, ("torch", "trl", "peft")):
        lacking = "the extra `train` is not installed"
    elif not folder:
        lacking = f"{training.VARIABLE} is not set, to a folder that all training workers share"
    elif not Path(folder).is_dir():
        lacking = f"{folder}, which {training.VARIABLE} names, is not a folder"
    else:
        return list(queues)
    if chosen and "train" in queues:
        raise ConfigurationError(f"{training.TASK_QUEUE} can't be served: {lacking}")
    if "train" in queues:
        logger.info("%s is not served: %s", training.TASK_QUEUE, lacking)
    return [name for name in queues if name != "train"]


@contextlib.asynccontextmanager
async def trained(
    queues: Sequence[str], options: WorkerOptions, client: Client
) -> AsyncIterator[list[Callable[..., Any]] | None]:
    """Build what trains and scores, if asked to, and serve tuned reflectors while the block runs.

    Raises ConfigurationError.
    """
    if "train" not in queues:
        yield None
        return
    from activities.training.activity import ScoringActivities, TrainingActivities
    from activities.training.artifacts import TrainingError, resolve
    from activities.training.served import Served

    root = Path(os.environ[training.VARIABLE])
    (host, port), bases = options.reflector_address or REFLECTORS, options.base or ()
    try:
        for name in bases:
            if not Path(name).is_dir():
                resolve(root, name)
    except (OSError, TrainingError) as error:
        raise ConfigurationError(f"--base: {str(error).removesuffix('.')}") from None
    try:
        served = Served(root, host, port, bases)
    except OSError as error:
        said = f"--reflector-address: can't listen on {host}, port {port}: {error.strerror}"
        raise ConfigurationError(said) from None
    trains = TrainingActivities(root, client, aside=served.aside)
    scores = ScoringActivities(served.score)
    async with served:
        logger.info("tuned reflectors are served at %s/v1", served.address)
        yield [
            trains.find_base_model,
            trains.train_stage,
            trains.keep_pair,
            trains.assemble_buffer,
            trains.keep_result,
            trains.shuffle_labels,
            scores.score_reflections,
        ]


def webhook_of(environment: Mapping[str, str]) -> WebhookActivities | None:
    """Make the activities that post to MULL_WEBHOOK, if it is set. Raises ConfigurationError.

    No message shows the address, which may hold a key.
    """
    url, secret = environment.get(WEBHOOK), environment.get(WEBHOOK_SECRET)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"{WEBHOOK}: expected an address such as https://example.org/hook")
    if not secret:
        raise ConfigurationError(f"{WEBHOOK_SECRET} is not set: it signs the notices to {WEBHOOK}")

    async def post(body: bytes, headers: dict[str, str]) -> int:
        # It takes a quarter of a second to import. LiteLLM's adapter bounds httpx in its process.
        import aiohttp

        try:
            async with (
                asyncio.timeout(POST_SECONDS),
                aiohttp.ClientSession(trust_env=True) as client,
                client.post(url, data=body, headers=headers, allow_redirects=False) as reply,
            ):
                return reply.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OSError(f"the receiver can't be reached: {type(error).__name__}") from None

    linked = run_page if environment.get("MULL_WEB_UI") else lambda *_: None
    return WebhookActivities(post, secret, linked)
