"""`turn`: start a tool-using turn, show it live, and print its answer."""

import sys
from typing import Annotated, Any

import typer

from commands import command, start
from commands.command import fail, with_client
from commands.help import COMMON
from commands.options import New, Wanted, settled, takes_fields
from mull.turn.request import ToolTurnRequest
from mull.turn.session import SessionMessage, SessionRequest


@takes_fields(ToolTurnRequest)
def turn(
    message: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Go on with the conversation of this id, or begin it. Its turns keep the options"
            " that it began with; --context is for this message, and --id names the message.",
        ),
        COMMON,
    ] = None,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Answer a message with tools, alone or in a conversation.

    The model answers, or calls tools first: python, calculate, current_time, documents (with
    --docs), and whatever the worker has been given. A call that may write waits until a person
    allows it.

    For example:

        mull turn "What is 2 ** 100, and is today a weekday?" > answer.txt
        mull turn "Which of these ends first?" --docs contracts --tools documents
        mull turn "File this bug" --think-level low --reflect-every 1
        mull review turn-file-this-bug-7f3a91c2 --allow 1
        mull turn "And how many are open?" --session bugs

    The answer goes to standard output, everything else to standard error.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no answer within the
    budget, or one that was cut off (--accept-any makes these 0), 5 cancelled, 130 detached (the
    turn goes on).
    """
    fields["message"] = start.subject_of(message, "the message")
    if fields["stream"] is None and not new.detach:
        fields["stream"] = sys.stderr.isatty() or None
    if session is not None and (new.again or not session.strip()):
        wrong = "and --again can't be combined" if new.again else "needs the id of a conversation"
        fail(f"--session {wrong}.")
    if session is not None:
        said = {name: fields.pop(name) for name in ("message", "context", "stream")}
        from commands import sessions

        fields = settled(ToolTurnRequest, fields, new.profile)
        given, sent = command.checked(SessionRequest, fields), command.checked(SessionMessage, said)
        more: dict[str, Any] = {"message_id": new.workflow_id, "detach": new.detach}
        with_client(lambda client: sessions.send(client, session, given, sent, wanted, **more))
    start.begin(ToolTurnRequest, fields, new, wanted)
