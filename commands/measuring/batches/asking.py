"""Before anything is paid for: what it will cost, and whether it is wanted."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from commands.follow import new_id
from commands.measuring.batches import spend
from commands.measuring.batches.running import Order
from commands.measuring.batches.spend import Calls
from commands.session import Exit, fail
from reflection.batch.request import BatchRequest
from reflection.plain import plain
from reflection.size import encoded_size
from reflection.words.amounts import tally_words

# A batch's id may have 100, and what scores the answers adds a word and a number to it.
MOST_ID_BYTES = 85


def only_estimate(parts: Sequence[Calls], assumed: str, as_json: bool) -> NoReturn:
    """Say what it would cost, and end with exit code 0."""
    if as_json:
        sys.stdout.write(json.dumps(spend.document(parts)) + "\n")
    else:
        spend.say(parts, assumed)
    raise typer.Exit(Exit.DONE)


def agreed(parts: Sequence[Calls], assumed: str, yes: bool) -> bool:
    """Say what it will cost, and ask a person in a terminal whether to start."""
    spend.say(parts, assumed)
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return typer.confirm("Start?", err=True)


def order(
    command: str,
    file: Path,
    identity: str | None,
    request: BatchRequest,
    wanted: Callable[[], bool],
    detach: bool,
    as_json: bool,
) -> Order:
    """Put together what a command wants to be made, under an id that reads well in a list."""
    chosen = identity or new_id(command, file.stem)
    if encoded_size(chosen) > MOST_ID_BYTES:
        fail(f"--id: at most {MOST_ID_BYTES} bytes, for the ids of its runs begin with it.", 2)
    return Order(
        identity=chosen,
        option=chosen,
        request=request,
        summary=plain(f"{command} {file.name}: {tally_words(request.total, 'run')}", 120),
        agreed=wanted,
        detach=detach,
        as_json=as_json,
    )
