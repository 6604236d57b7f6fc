"""Options that several commands take, each with one name and one meaning."""

from functools import partial
from typing import Annotated

import typer

bounds = partial(typer.Option, rich_help_panel="Bounds")
review = partial(typer.Option, rich_help_panel="A person's review")

Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]
NewId = Annotated[str | None, typer.Option("--id", help="The workflow's id.")]
Detach = Annotated[bool, typer.Option("--detach", help="Return the id at once.")]
BatchId = Annotated[str | None, typer.Option("--id", help="The batch's id.")]
Estimate = Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and end.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether to start.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]

BudgetTokens = Annotated[int | None, bounds(help="Tokens in and out.")]
BudgetUsd = Annotated[float | None, bounds(help="US dollars.")]
BudgetSeconds = Annotated[
    float | None, bounds(help="Seconds from the start, without waiting for a person.")
]
CallTimeout = Annotated[
    float | None,
    bounds("--call-timeout", "--call-timeout-seconds", help="Of one call; 120 s by default."),
]
MaxAttempts = Annotated[int | None, bounds(help="Tries of one call; 5 by default.")]
ReviewTimeout = Annotated[
    float | None,
    review("--review-timeout", help="Seconds that it waits, at most; for ever by default."),
]
