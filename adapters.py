"""The adapters of a worker: models, documents, tools, the sandbox, training, and the webhook."""

import argparse
import asyncio
import contextlib
import importlib.util
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.worker import (
    FixedSizeSlotSupplier,
    ResourceBasedSlotConfig,
    ResourceBasedSlotSupplier,
    ResourceBasedTunerConfig,
    WorkerTuner,
)

from activities.environments.port import Environment, Named, environments_in
from activities.language_model.layers import ObservedModel, PacedModel
from activities.language_model.port import Abilities, LanguageModel
from activities.sandbox.port import TASK_QUEUE, Sandbox, SandboxError
from activities.tools.activity import ToolActivities
from activities.tools.builtin import calculate, current_time, python_tool
from activities.tools.functions import functions_of, tools_in
from activities.tools.port import Library, ToolServer
from activities.training import port as training
from activities.webhook import WebhookActivities
from commands.command import run_page
from mull.connection import ConfigurationError
from mull.multipath.request import Limits
from mull.request import explain, parse_request
from mull.turn.approval import ToolRule

LIMITS = "MULL_SANDBOX_LIMITS"
CEILING = Limits(wall_seconds=60, cpu_seconds=60)
POST_SECONDS = 10.0
WEBHOOK, WEBHOOK_SECRET = "MULL_WEBHOOK", "MULL_WEBHOOK_SECRET"

logger = logging.getLogger("mull.worker")


def supposed(_: str | None) -> Abilities:
    """Suppose that a model takes tools, and has no setting for how it thinks."""
    return Abilities(tools=True, effort=False)


class Adapters(NamedTuple):
    """The adapters for models and for documents on this machine.

    `abilities` tells how a model takes tools and thinks, without a call of it.
    """

    model: LanguageModel | None = None
    retriever: Library | None = None
    abilities: Callable[[str | None], Abilities] = supposed


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


def toolbox(options: argparse.Namespace, library: Library | None) -> ToolActivities:
    """Gather the tools that the options name beside the built-in ones, and the rules for calls.

    Raises ConfigurationError, which names the file and the field.
    """
    rules: tuple[ToolRule, ...] = ()
    servers: Sequence[ToolServer] = ()
    path: Path | None = None
    try:
        marked = [function for module in options.tools for function in tools_in(module)]
        functions = functions_of(calculate, current_time, python_tool(None), *marked)
        if path := options.approve:
            rules = parse_request(tuple[ToolRule, ...], path.read_bytes())
        if path := options.mcp:
            # The client takes a second to import.
            if importlib.util.find_spec("mcp") is None:
                raise ConfigurationError("--mcp needs mcp: pip install 'mull[mcp]'")
            from activities.tools.servers import read_servers

            servers = read_servers(path.read_bytes(), os.environ)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {explain(error)}" if path else str(error)) from None
    return ToolActivities(functions, servers, library, rules)


def environments(
    queues: Sequence[str],
    modules: Sequence[str],
    library: Library | None,
    sandbox: Sandbox | None,
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
        logger.warning("%s is not served: %s", TASK_QUEUE, error)
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


def servable(queues: Sequence[str], *, chosen: bool) -> list[str]:
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
    options: argparse.Namespace, client: Client
) -> AsyncIterator[list[Callable[..., Any]] | None]:
    """Build what trains and scores, if asked to, and serve tuned reflectors while the block runs.

    Raises ConfigurationError.
    """
    if "train" not in options.queues:
        yield None
        return
    from activities.training.activity import ScoringActivities, TrainingActivities
    from activities.training.artifacts import TrainingError, resolve
    from activities.training.served import Served

    root = Path(os.environ[training.VARIABLE])
    host, port = options.reflector_address
    try:
        for name in options.base:
            if not Path(name).is_dir():
                resolve(root, name)
    except (OSError, TrainingError) as error:
        raise ConfigurationError(f"--base: {str(error).removesuffix('.')}") from None
    try:
        served = Served(root, host, port, options.base)
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
    """Make what tells the webhook that MULL_WEBHOOK names, if it does. Raises ConfigurationError.

    No message shows the address, which may hold a key.
    """
    url, secret = environment.get(WEBHOOK), environment.get(WEBHOOK_SECRET)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"{WEBHOOK}: expected an address such as https://example.org/hook")
    if not secret:
        raise ConfigurationError(f"{WEBHOOK_SECRET} is not set: it signs what {WEBHOOK} is told")

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
