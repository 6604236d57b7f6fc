"""`ask`: start a run of self-consistency, show it live, and print its answer."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from commands import options
from commands.inputs import checked, read_file, read_stdin
from commands.session import with_client

HELP = """Ask a question and sample until the answers converge.

Examples:

    starter.py ask "Is 91 prime?"

    starter.py ask "What is 17 * 23?" --answers number --preset thrifty

    starter.py ask - --json --require-confidence 0.8 < question.txt

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 below the bar or
no consensus, 5 cancelled, 130 detached (the run goes on).
"""

RULES = "combined, confidence_only, entropy_only, off, predictive, beta, ahead_by, curtail, fixed"


STOPPING = "When to stop"
_model = partial(typer.Option, rich_help_panel="Model and answers")
_stopping = partial(typer.Option, rich_help_panel=STOPPING)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("ask", help=HELP)(ask)


def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    model: Annotated[
        str | None,
        _model(help="Any LiteLLM name; else the worker's own.", envvar="MULL_MODEL"),
    ] = None,
    answers: Annotated[
        str | None,
        _model(
            help="How answers are compared: exact (default), text, number, choice, or llm, which"
            " asks the model whether two mean the same.",
            metavar="KIND",
        ),
    ] = None,
    temperature: Annotated[float | None, _model(help="0 to 2; 0.7 by default.")] = None,
    seed: Annotated[int | None, _model(help="Sample i is asked with seed + i.")] = None,
    prompt_template: Annotated[
        Path | None, _model(help="A file; {question} in it is the question's place, else its end.")
    ] = None,
    max_output_tokens: Annotated[int | None, _model(help="Of one reply; 1024 by default.")] = None,
    preset: Annotated[
        str | None,
        _stopping(help="thrifty (predictive, at most 10) or thorough (0.02, at most 40)."),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule", "--entropy-mode", help=f"One of: {RULES}.", rich_help_panel=STOPPING
        ),
    ] = None,
    min_responses: Annotated[
        int | None, _stopping(help="Readable answers at least; 5 for the source's modes, else 1.")
    ] = None,
    max_responses: Annotated[int | None, _stopping(help="Answers at most; 10 by default.")] = None,
    quorum: Annotated[
        int | None, _stopping(help="Readable answers for a consensus; 1 by default.")
    ] = None,
    confidence_threshold: Annotated[float | None, _stopping(help="0 to 1; 0.8 by default.")] = None,
    entropy_threshold: Annotated[float | None, _stopping(help="0 to 1; 0.3 by default.")] = None,
    entropy_weight: Annotated[float | None, _stopping(help="0 to 1; 0.3 by default.")] = None,
    min_entropy_samples: Annotated[
        int | None, _stopping(help="Readable answers before entropy counts; 4 by default.")
    ] = None,
    epsilon: Annotated[
        float | None, _stopping(help="predictive stops at this chance of a flip; 0.05 by default.")
    ] = None,
    beta_threshold: Annotated[
        float | None, _stopping(help="beta stops at this certainty; 0.95 by default.")
    ] = None,
    ahead_by: Annotated[
        int | None, _stopping(help="ahead_by stops at this lead in votes; 3 by default.")
    ] = None,
    futility: Annotated[
        float | None, _stopping(help="Stop when agreement is at most this likely; off by default.")
    ] = None,
    max_concurrency: Annotated[
        int | None, options.bounds(help="Calls at once, at most; 16 by default.")
    ] = None,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    budget_seconds: options.BudgetSeconds = None,
    sample_timeout_seconds: Annotated[
        float | None, options.bounds(help="Seconds for one call; 120 by default.")
    ] = None,
    max_attempts: options.MaxAttempts = None,
    review_when: Annotated[
        str | None,
        options.review(help="high: a result whose uncertainty is high waits for a person."),
    ] = None,
    review_timeout_seconds: options.ReviewTimeout = None,
    require_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with 4 below this confidence.")
    ] = None,
    workflow_id: options.NewId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> None:
    """Start a run, and follow it unless detached."""
    given = dict(locals())
    own = {"require_confidence", "workflow_id", "detach", "as_json", "prompt_template"}
    fields = {name: value for name, value in given.items() if name not in own}
    fields["question"] = read_stdin("the question") if question == "-" else question
    fields["model"] = model or None
    if prompt_template is not None:
        fields["prompt_template"] = read_file("--prompt-template", prompt_template)
    from commands import follow
    from reflection.convergence.request import SelfConsistencyRequest

    request = checked(SelfConsistencyRequest, fields)

    with_client(
        lambda client: follow.start(
            client, request, workflow_id, detach, as_json, require_confidence
        )
    )
