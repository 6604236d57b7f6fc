"""`turn`: start a tool-using turn, show it live, and print its answer."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from commands import command, start
from commands.command import Exit, fail
from commands.follow import New, Wanted
from reflection.turn.request import ToolTurnRequest

HELP = {
    "turn": """
The model answers, or calls tools first: python, calculate, current_time, documents (with --docs),
and whatever the worker has been given. A call that may write waits until a person allows it.

Examples:

    mull turn "What is 2 ** 100, and is today a weekday?" > answer.txt
    mull turn "Which of these contracts ends first?" --docs contracts --tools documents,calculate
    mull turn "File this bug" --think-level low --reflect-every 1
    mull review turn-file-this-bug-7f3a91c2 --allow 1

The answer goes to standard output, everything else to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no answer within the budget
(--accept-any makes this 0), 5 cancelled, 130 detached (the turn goes on).
"""
}

MODEL, TOOLS, REFLECTION = "Model", "Tools", "Reflection"


@start.takes_framing
@command.takes_fields(
    ToolTurnRequest,
    {
        MODEL: ("model", "temperature", "seed", "max_output_tokens"),
        TOOLS: ("docs",),
        REFLECTION: (
            "think_level", "reflect_every", "reflect_on_tool_error", "reflect_on_uncertainty",
            "reflection_feeds_back", "max_reflections",
        ),
        start.BOUNDS: (
            "max_steps", "max_tool_calls", "max_context_tokens", *start.BUDGETS,
            "call_timeout_seconds", "max_attempts", "review_timeout_seconds",
        ),
    },
)  # fmt: skip
def turn(
    message: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The tools that may be used, by name or group (python, documents, a server); all"
            ' of the worker by default, none with --tools "".',
            rich_help_panel=TOOLS,
        ),
    ] = None,
    approve: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rules for tool calls, a JSON list, which can only tighten the worker's.",
            rich_help_panel=TOOLS,
        ),
    ] = None,
    accept_any: command.AcceptAny = False,
    workflow_id: command.NewId = None,
    again: command.Again = False,
    detach: command.Detach = False,
    as_json: command.Json = False,
    **fields: Any,
) -> None:
    """Start a turn."""
    fields["message"] = start.subject_of(message, "the message")
    if tools is not None:
        fields["tools"] = [name.strip() for name in tools.split(",") if name.strip()]
    if approve is not None:
        try:
            fields["approve"] = json.loads(command.read_file("--approve", approve))
        except ValueError as error:
            fail(f"--approve: {approve} is not valid JSON: {error}.", Exit.USAGE)
    if fields["docs"]:
        fields["docs"] = start.folder_of(fields["docs"])
    wanted = Wanted(as_json, accept_any)
    start.begin(ToolTurnRequest, fields, New(workflow_id, again, detach), wanted)
