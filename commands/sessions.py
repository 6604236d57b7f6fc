"""A message to a session: begin the session, or go on with it, and follow the turn that answers."""

from collections.abc import Sequence

from temporalio.client import Client

import mull
from commands.command import Exit, option_of, print_id, tell
from commands.follow import follow
from commands.options import Wanted
from mull.turn.session import SessionMessage, SessionRequest


async def send(
    client: Client,
    session: str,
    request: SessionRequest,
    message: SessionMessage,
    wanted: Wanted,
    *,
    message_id: str | None = None,
    detach: bool = False,
) -> Exit:
    """Send a message, follow its turn and print the result, or print the turn's id at once."""
    talk = mull.Client(client).session(session, request)
    talk.note = _note
    run = await talk.start(message, id=message_id, begun=not detach)
    if detach:
        return print_id(run.id, as_json=wanted.as_json)
    tell(f"run {run.id}")
    return await follow(run, message, wanted)


def _note(said: str, fields: Sequence[str] = ()) -> None:
    options = ", ".join(option_of(SessionRequest, name) for name in fields)
    tell(f"Note: {said}: {options}." if options else f"Note: {said}.")
