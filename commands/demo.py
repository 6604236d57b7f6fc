"""`make demo`: a server, a worker and a model, one question, and nothing left running.

The model is the one that MULL_MODEL names, or else an embedded toy.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import typer

import telemetry
from commands.embedded import PORT, TOY_MODEL, UI_PORT, Place, free_port, is_free, temporal, working
from commands.follow import start
from commands.session import Exit, end_process
from reflection.sampling.request import SelfConsistencyRequest

QUESTION = "What is 2 + 3?"
FOLDER = Path("build")
TOY_TOKENS = 200


async def demo() -> Exit:
    """Ask the model one question, and print where to look at the run."""
    telemetry.set_up(None)
    FOLDER.mkdir(exist_ok=True)
    usual = is_free(PORT) and is_free(UI_PORT)
    port, ui_port = (PORT, UI_PORT) if usual else (free_port(), free_port())
    place = Place(port, ui_port, FOLDER / "demo.db")
    sys.stderr.write("Starting Temporal, its Web UI, a worker and a model ...\n")
    log, spans = FOLDER / "demo.log", FOLDER / "demo-spans.jsonl"
    async with temporal(place, log) as (_, client), working(client, spans, log):
        model = os.environ["MULL_MODEL"]
        toy = model == TOY_MODEL
        warning = " (a toy: it shows how Mull works, not how good models are)"
        sys.stderr.write(f"Model     {model}{warning if toy else ''}\nQuestion  {QUESTION}\n\n")
        request = SelfConsistencyRequest(
            question=QUESTION,
            answers="number",
            preset="thorough",
            seed=7,
            max_output_tokens=TOY_TOKENS if toy else 2_000,
        )
        ended = await start(client, request)
        sys.stderr.write(
            "\nThe demo is over and nothing is left running. To see this run in the Web UI:\n"
            f"  .venv/bin/mull dev --port {port} --ui-port {ui_port} --db {place.db}\n"
        )
        return ended


def main() -> int:
    """Run the demo; on an interrupt, stop everything it started."""

    async def guarded() -> Exit:
        running = asyncio.create_task(demo())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        return await running

    argparse.ArgumentParser("python -m commands.demo", description=__doc__).parse_args()
    try:
        with suppress(asyncio.CancelledError):
            return asyncio.run(guarded())
    except typer.Exit as ended:
        return ended.exit_code
    return Exit.DETACHED


if __name__ == "__main__":
    end_process(main())
