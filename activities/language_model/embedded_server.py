"""The process of the embedded model: llama.cpp's server, until standard input ends."""

import json
import os
import sys
from typing import Any

import xllamacpp  # type: ignore[import-untyped] # it ships no types

SILENT = -1


def serve() -> None:
    """Read one line of orders, print the address, and serve until whoever gave them is gone."""
    server = xllamacpp.Server(build_settings(json.loads(sys.stdin.readline())))
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Taking the server down properly waits for ever for replies that are under way.
    os._exit(0)


def build_settings(orders: dict[str, Any]) -> Any:
    """Build llama.cpp's settings from the model's path, a key, slots and tokens of context."""
    settings = xllamacpp.CommonParams()
    settings.model.path = orders["model"]
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.api_keys = [orders["key"]]
    settings.n_parallel = orders["slots"]
    settings.n_ctx = orders["context_tokens"]
    for threads in (settings.cpuparams, settings.cpuparams_batch):
        threads.n_threads = max(1, (os.cpu_count() or 1) // 2)
        # Threads that poll for work spin, and take 30 times as long where the cores are busy.
        threads.poll = 0
    settings.verbosity = SILENT
    settings.n_gpu_layers = 0
    settings.fit_params = False
    settings.offline = True
    settings.ui = False
    settings.endpoint_slots = False
    # By default up to 8 GB of old prompts are kept in memory.
    settings.cache_ram_mib = 0
    return settings


if __name__ == "__main__":
    serve()
