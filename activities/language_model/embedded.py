"""A small language model that comes with Mull: to try it without a key or a network.

This file is also the program of its process: llama.cpp's server, until standard input ends.
"""

import importlib.util
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from activities.language_model.port import Endpoint

SLOTS = 4
CONTEXT_TOKENS = 4_096
START_SECONDS = 60.0
STOP_SECONDS = 5.0
SILENT = -1


class EmbeddedModelError(RuntimeError):
    """The embedded model is not installed, or does not start."""


class EmbeddedModel:
    """SmolLM2-135M-Instruct, a toy, served by llama.cpp on a free port of loopback.

    It makes four replies at once, each within 4,096 tokens with its prompt, on half of the cores.
    It runs from `start` to `stop`, or within `with`, as a process of its own: inside this one,
    stopping llama.cpp would wait for ever for replies under way. It ends when this process does,
    however that ends. Source: https://arxiv.org/abs/2502.02737
    """

    name = "embedded/smollm2-135m"

    def __init__(self) -> None:
        self._key = secrets.token_urlsafe(32)
        self._process: subprocess.Popen[str] | None = None
        self._address = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> "Endpoint":
        """Its address and key. Raises EmbeddedModelError if it was not started."""
        # Not at the top: the process of the model does not need Mull.
        from activities.language_model.port import Endpoint

        if not self._address:
            raise EmbeddedModelError("the embedded model is not running: call start() first")
        return Endpoint("smollm2-135m", f"{self._address}/v1", self._key, free=True)

    def start(self) -> None:
        """Load the model and serve it; that takes about a second. Raises EmbeddedModelError."""
        if self._process is not None:
            return
        orders: dict[str, str | int] = {"model": str(find_model()), "key": self._key}
        orders |= {"slots": SLOTS, "context_tokens": SLOTS * CONTEXT_TOKENS}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and our own file
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for the worker, which then stops it
        )
        self._address = _hand_over(self._process, orders)
        if not self._address:
            self.stop()
            raise EmbeddedModelError("the embedded model did not start: is there 400 MB of memory?")

    def stop(self) -> None:
        """End its process and close its port."""
        process, self._process, self._address = self._process, None, ""
        if process is None:
            return
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def find_model() -> Path:
    """Find the model's file. Raises EmbeddedModelError, which says how to install or fetch it."""
    # The toy's HTTP client takes a while to import.
    from activities.language_model.toy_file import weights
    from mull.text import EXTRA

    if importlib.util.find_spec("xllamacpp") is None:
        raise EmbeddedModelError(f"the toy model needs xllamacpp: {EXTRA.format('dev')}")
    if found := weights():
        return found
    raise EmbeddedModelError("the toy model is not here yet: fetch it with `mull dev --toy`")


def _hand_over(process: subprocess.Popen[str], orders: dict[str, str | int]) -> str:
    """Give the server its orders, the key among them, and wait for its address; "" for none."""
    if process.stdin is None or process.stdout is None:
        raise EmbeddedModelError("the embedded model's process has no pipes")
    limit = Timer(START_SECONDS, process.kill)
    limit.start()
    try:
        process.stdin.write(json.dumps(orders) + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()
    except BrokenPipeError:
        return ""
    finally:
        limit.cancel()


def serve() -> None:
    """Read one line of orders, print the address, and serve until standard input ends."""
    import xllamacpp  # type: ignore[import-untyped] # it ships no types

    orders: dict[str, Any] = json.loads(sys.stdin.readline())
    settings = xllamacpp.CommonParams()
    settings.model.path = orders["model"]
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.api_keys = [orders["key"]]
    settings.n_parallel = orders["slots"]
    settings.n_ctx = orders["context_tokens"]
    for threads in (settings.cpuparams, settings.cpuparams_batch):
        threads.n_threads = max(1, (os.cpu_count() or 1) // 2)
        # Threads that poll for work spin, and take 30 times as long if the cores are busy.
        threads.poll = 0
    settings.verbosity = SILENT
    settings.n_gpu_layers = 0
    settings.fit_params = False
    settings.offline = True
    settings.ui = False
    settings.endpoint_slots = False
    # By default up to 8 GB of old prompts are kept in memory.
    settings.cache_ram_mib = 0
    server = xllamacpp.Server(settings)
    try:
        sys.stdout.write(f"{server.listening_address}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        # A proper shutdown may wait for ever: for replies under way, or for the server's start.
        os._exit(0)


if __name__ == "__main__":
    serve()
