"""The composition root: builds the adapters, registers workflows and activities, serves queues.

worker.py                     every queue
worker.py --queues llm        model calls alone
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from temporalio.service import RPCError

import telemetry
from activities.documents.retrieval import Retriever
from activities.language_model.port import LanguageModel
from activities.sandbox.port import Sandbox, SandboxError
from commands.session import end_process
from connection import ConfigurationError, NoServerError, address, connect
from queues import GRACE, NAMES, QUEUES, WORKFLOWS, build
from reflection.multipath.request import Limits
from reflection.run import explain
from reflection.text import terminal_safe

__all__ = ["QUEUES", "WORKFLOWS", "build", "main", "serve"]

LIMITS = "MULL_SANDBOX_LIMITS"
CEILING = Limits(wall_seconds=60, cpu_seconds=60)

logger = logging.getLogger("mull.worker")


class Adapters(NamedTuple):
    """What reaches models, and documents on this machine."""

    model: LanguageModel | None = None
    retriever: Retriever | None = None


@contextlib.contextmanager
def adapters(default: str | None) -> Iterator[Adapters]:
    """Build what reaches models and documents; the embedded model runs where it is the default."""
    # These imports take seconds, which `--help` and tests with a model of their own do without.
    from activities.documents.folder import FolderRetriever
    from activities.language_model.embedded import EmbeddedModel
    from activities.language_model.litellm_model import LiteLLMModel
    from activities.language_model.observed import ObservedModel

    with contextlib.ExitStack() as stack:
        endpoints = {}
        if default == EmbeddedModel.name:
            endpoints[default] = stack.enter_context(EmbeddedModel()).endpoint
        model = LiteLLMModel(default, endpoints)
        retriever = FolderRetriever.from_environment(os.environ, model)
        stack.callback(retriever.close)
        yield Adapters(ObservedModel(model, default), retriever)


async def sandbox() -> Sandbox:
    """Choose what untrusted code runs in, and name it in the log.

    Raises SandboxError where none passes its self-test, and ConfigurationError.
    """
    from activities.sandbox.selftest import choose

    try:
        chosen = await choose(ceiling=_ceiling(os.environ.get(LIMITS)))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    logger.info("sandbox: %s", chosen.described)
    return chosen.sandbox


def _ceiling(given: str | None) -> Limits:
    try:
        return Limits.model_validate_json(given) if given else CEILING
    except ValidationError as error:
        raise ConfigurationError(f"{LIMITS}: {explain(error)}") from None


async def serve(options: argparse.Namespace) -> None:
    """Serve until a signal says stop, then let calls under way end."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    default = os.environ.get("MULL_MODEL") or None
    if default is None and "llm" in options.queues:
        logger.warning("MULL_MODEL is not set: runs that name no model will fail")
    client = await connect()
    queues, runs = await _confined(options.queues)
    # A worker that asks no model spares itself what reaches them, which is large.
    outside = adapters(default) if "llm" in queues else contextlib.nullcontext(Adapters())
    with outside as (model, retriever):
        rate = options.calls_per_second
        workers = build(client, queues, model, rate, retriever, runs)
        async with contextlib.AsyncExitStack() as stack:
            for each in workers:
                await stack.enter_async_context(each)
            logger.info("serving %s at %s", _names(queues), address())
            await stop.wait()
            logger.info("stopping: calls under way have %d s", GRACE.total_seconds())


async def _confined(queues: Sequence[str]) -> tuple[list[str], Sandbox | None]:
    """Return the queues that can be served, and the sandbox if code is among them.

    Raises SandboxError where there is none, and nothing else to serve.
    """
    others = [each for each in queues if each != "code"]
    if others == list(queues):
        return others, None
    try:
        return list(queues), await sandbox()
    except SandboxError as error:
        if not others:
            raise
        logger.warning("%s is not served: %s", NAMES["code"], error)
        return others, None


def _names(queues: Sequence[str]) -> str:
    return ", ".join(NAMES[each] for each in queues)


def silence_ordinary() -> None:
    """Leave out what the SDK and LiteLLM warn of on ordinary days.

    That is calls in flight at a run's end, a cancellation that comes late, and types of LiteLLM's.
    """
    logging.getLogger("temporalio.activity").addFilter(is_worth_reading)
    for said in ("Cannot find activity to cancel", "Items? .* on TypedDict class"):
        warnings.filterwarnings("ignore", said, UserWarning)


def is_worth_reading(record: logging.LogRecord) -> bool:
    """Return False for a record of an activity that ended because it was cancelled."""
    error = record.exc_info[1] if record.exc_info else None
    cancelled = isinstance(error, asyncio.CancelledError)
    return not (cancelled and str(record.msg).startswith("Completing activity as failed"))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Serve Mull's task queues until interrupted.",
        epilog="Answers come from MULL_MODEL, any LiteLLM name, with its provider's key in the "
        "environment; drafts are judged by MULL_JUDGE_MODEL, else by the same. "
        "Example: MULL_MODEL=openai/gpt-5-mini worker.py --queues llm. Exit codes: "
        "0 stopped by a signal, 1 failed, 2 wrong usage, 3 no server.",
    )
    parser.add_argument(
        "--queues", type=_queues, default=list(QUEUES), help="of: mull, llm, code (all of them)"
    )
    parser.add_argument("--traces", type=Path, metavar="FILE", help="write spans here, as JSON")
    parser.add_argument(
        "--calls-per-second", type=_rate, help="bound model calls of all workers together"
    )
    return parser.parse_args(arguments)


def _queues(text: str) -> list[str]:
    names = [each.strip().removeprefix("mull-") for each in text.split(",") if each.strip()]
    unknown = [each for each in names if each not in QUEUES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"one or more of {', '.join(QUEUES)}, with commas")
    return names


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError("a number above 0")
    return rate


def main(arguments: Sequence[str]) -> int:
    """Serve, and return an exit code: 0 stopped by a signal, 1 failed, 2 usage, 3 no server."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    silence_ordinary()
    for chatty in ("LiteLLM", "httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        tracing, metering = telemetry.set_up(options.traces), telemetry.measure()
    except OSError as error:
        return _failed(f"{options.traces} can't be written: {error.strerror}", 2)
    try:
        asyncio.run(serve(options))
    except NoServerError as error:
        return _failed(f"{error}.\nSet TEMPORAL_ADDRESS, or try `starter.py dev`", 3)
    except ConfigurationError as error:
        return _failed(str(error), 2)
    except SandboxError as error:
        return _failed(str(error), 1)
    except (RPCError, RuntimeError) as error:
        return _failed(f"the worker can't serve: {terminal_safe(str(error), 300)}", 1)
    finally:
        tracing.shutdown()
        if metering is not None:
            metering.shutdown()
    return 0


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"Error: {message}.\n")
    return code


def run() -> None:
    """Be the command `mull-worker`."""
    end_process(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
