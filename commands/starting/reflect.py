"""`reflect`: start a run that judges and revises drafts, show it live, and print the best one."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from commands import options
from commands.inputs import checked, read_file, read_stdin, read_text
from commands.session import Exit, fail, with_client
from commands.starting.criteria import CRITERION_FORM, PRESET_NAMES, chosen_criteria

HELP = """Write a draft, have it judged, revise it while its score is low, and print the best one.

Examples:

    starter.py reflect "Compare Kafka and Pulsar for an audit log" > answer.md

    starter.py reflect "Document parse_date()" --draft draft.md --criteria documentation

    starter.py reflect - --judge openai/gpt-5-mini --max-revisions 2 --json < query.txt

    starter.py reflect "Reply to Ann: ..." --criterion "tone*2=It is courteous." --review-below 0.6

The best draft goes to standard output, all else to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 below --require-score or
no draft, 5 cancelled, 130 detached (the run goes on).
"""

_draft = partial(typer.Option, rich_help_panel="Writer and draft")
_judging = partial(typer.Option, rich_help_panel="Judges and criteria")
_revising = partial(typer.Option, rich_help_panel="When to revise")
_guarding = partial(typer.Option, rich_help_panel="Guardrails")
_gate = partial(typer.Option, rich_help_panel="Whether to reflect at all")

# What is no field of the request by this name.
OWN = {
    "criterion", "source", "guardrail", "no_guardrails", "no_reflect", "judge",
    "require_score", "workflow_id", "detach", "as_json",
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("reflect", help=HELP)(reflect)


def reflect(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    draft: Annotated[
        str | None,
        _draft(
            help="Judge this draft in the place of a generated one; - is stdin.", metavar="FILE"
        ),
    ] = None,
    model: Annotated[
        str | None, _draft(help="Any LiteLLM name; else the worker's own.", envvar="MULL_MODEL")
    ] = None,
    source: Annotated[
        list[Path] | None,
        _draft(help="A text to cite, as [1], [2] and so on; repeat it.", metavar="FILE"),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str | None, _draft(help="What the draft must parse as: json, python or markdown.")
    ] = None,
    temperature: Annotated[float | None, _draft(help="0 to 2; 0.7 by default.")] = None,
    seed: Annotated[int | None, _draft(help="Of the writer, as far as it takes one.")] = None,
    max_output_tokens: Annotated[int | None, _draft(help="Of one reply; 4096 by default.")] = None,
    judge: Annotated[
        list[str] | None,
        _judging(
            help="The model that judges; repeat it for a panel. The worker's own by default.",
            envvar="MULL_JUDGE_MODEL",
            metavar="MODEL",
        ),
    ] = None,
    judge_max_output_tokens: Annotated[
        int | None, _judging(help="Of one judgement, with what is thought; 4096 by default.")
    ] = None,
    panel: Annotated[
        str | None, _judging(help="How a panel's scores become one: mean (default) or median.")
    ] = None,
    criteria: Annotated[
        str | None, _judging(help=f"One of: {', '.join(PRESET_NAMES)}.", metavar="PRESET")
    ] = None,
    criterion: Annotated[
        list[str] | None,
        _judging(
            help="One of your own, in the place of a preset; repeat it.", metavar=CRITERION_FORM
        ),
    ] = None,
    score_threshold: Annotated[
        float | None,
        typer.Option(
            "--score-threshold",
            "--confidence-threshold",
            help="No revision from this score on; 0.7 by default. Also --confidence-threshold.",
            rich_help_panel="When to revise",
        ),
    ] = None,
    max_revisions: Annotated[int | None, _revising(help="0 to 10; 1 by default.")] = None,
    min_gain: Annotated[
        float | None, _revising(help="Stop when two in a row gain less; 0.02 by default.")
    ] = None,
    guardrail: Annotated[
        list[str] | None,
        _guarding(help="One more, by its name in guardrails/own.py; repeat it.", metavar="NAME"),
    ] = None,
    no_guardrails: Annotated[
        bool, _guarding("--no-guardrails", help="None but those that --guardrail names.")
    ] = False,
    no_reflect: Annotated[
        bool, _gate("--no-reflect", help="Switch it off: one draft, neither judged nor revised.")
    ] = False,
    complexity: Annotated[
        float | None, _gate(help="Of the query, 0 to 1; estimated by default.")
    ] = None,
    min_complexity: Annotated[
        float | None,
        _gate(
            help="Reflect on queries above it; 0.5 by default, which leaves out simple questions;"
            " 0 for any query."
        ),
    ] = None,
    synthesis_follows: Annotated[
        bool, _gate("--synthesis-follows", help="A later step writes the result anew.")
    ] = False,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    budget_seconds: options.BudgetSeconds = None,
    call_timeout_seconds: options.CallTimeout = None,
    max_attempts: options.MaxAttempts = None,
    review_below: Annotated[
        float | None, options.review(help="A result with a score below it waits for a person.")
    ] = None,
    review_timeout_seconds: options.ReviewTimeout = None,
    require_score: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with 4 below this score, or where there is none."),
    ] = None,
    workflow_id: options.NewId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> None:
    """Start a run, and follow it unless detached."""
    given = dict(locals())
    fields = {name: value for name, value in given.items() if name not in OWN}
    if (query, draft) == ("-", "-"):
        fail("QUERY and --draft can't both be standard input.", Exit.USAGE)
    fields["query"] = read_stdin("the query") if query == "-" else query
    fields["draft"] = None if draft is None else read_text("--draft", draft)
    fields["sources"] = [read_file("--source", each) for each in source or []]
    fields["model"] = model or None
    fields["judges"] = judge or []
    fields["criteria"] = chosen_criteria(criteria, criterion or [])
    fields["guardrails"] = _guardrails(guardrail or [], only=no_guardrails)
    fields["reflect"] = not no_reflect
    from commands import follow
    from reflection.critique.request import ReflectOnResultRequest

    request = checked(ReflectOnResultRequest, fields)
    with_client(
        lambda client: follow.start(client, request, workflow_id, detach, as_json, require_score)
    )


def _guardrails(named: list[str], *, only: bool) -> list[str]:
    """Put the guardrails' names together; one that is not there is a mistake in typing."""
    from reflection.critique.guardrails import known_guardrails

    known = known_guardrails()
    unknown = [each for each in named if each not in known]
    if unknown:
        said = f"there is no guardrail {', '.join(unknown)}; there are {', '.join(known)}"
        fail(f"--guardrail: {said}.", Exit.USAGE)
    return named if only else ["default", *named]
