"""`ask`: start a run of self-consistency, show it live, and print its answer."""

from pathlib import Path
from typing import Annotated, Any

import typer

from commands.console import fail
from commands.session import Exit, with_client

HELP = """Ask a question and sample until the answers converge.

Examples:

    starter.py ask "Is 91 prime?"

    starter.py ask "What is 17 * 23?" --answers number --preset thrifty

    starter.py ask - --json --require-confidence 0.8 < question.txt

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 below the bar or
no consensus, 5 cancelled, 130 detached (the run goes on).
"""

RULES = "combined, confidence_only, entropy_only, off, predictive, beta, ahead_by, curtail, fixed"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("ask", help=HELP)(ask)


def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    model: Annotated[
        str | None,
        typer.Option(envvar="MULL_MODEL", help="Any LiteLLM name; else the worker's own."),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="How answers are compared: exact, text, number, choice, llm."
        ),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="thrifty or thorough.")] = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", "--entropy-mode", help=f"The stopping rule: {RULES}."),
    ] = None,
    min_responses: Annotated[int | None, typer.Option(help="Readable answers at least.")] = None,
    max_responses: Annotated[int | None, typer.Option(help="Answers at most.")] = None,
    confidence_threshold: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    entropy_threshold: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    entropy_weight: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    min_entropy_samples: Annotated[int | None, typer.Option(help="Before entropy counts.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Of `predictive`: 0 to 1.")] = None,
    beta_threshold: Annotated[float | None, typer.Option(help="Of `beta`: 0 to 1.")] = None,
    ahead_by: Annotated[int | None, typer.Option(help="Of `ahead_by`: votes.")] = None,
    futility: Annotated[
        float | None, typer.Option(help="Stop when agreement is at most this likely: 0 to 1.")
    ] = None,
    quorum: Annotated[int | None, typer.Option(help="Readable answers, else no consensus.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 to 2.")] = None,
    seed: Annotated[int | None, typer.Option(help="Sample i is asked with seed + i.")] = None,
    prompt_template: Annotated[
        Path | None, typer.Option(help="A file; {question} in it is the question's place.")
    ] = None,
    max_output_tokens: Annotated[int | None, typer.Option(help="Of one reply.")] = None,
    max_concurrency: Annotated[int | None, typer.Option(help="Calls of a wave, at most.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(help="Tokens in and out.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="US dollars.")] = None,
    budget_seconds: Annotated[float | None, typer.Option(help="From the start.")] = None,
    sample_timeout_seconds: Annotated[float | None, typer.Option(help="Of one call.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Calls for one sample.")] = None,
    require_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with 4 below this confidence.")
    ] = None,
    workflow_id: Annotated[str | None, typer.Option("--id", help="The workflow's id.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return the id at once.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Start a run, and follow it unless detached."""
    options = dict(locals())
    own = {"require_confidence", "workflow_id", "detach", "as_json", "prompt_template"}
    fields = {name: value for name, value in options.items() if name not in own}
    fields["question"] = _question(question)
    fields["prompt_template"] = _template(prompt_template)
    request = _request({name: value for name, value in fields.items() if value is not None})
    from commands import following

    with_client(
        lambda client: following.start(
            client, request, workflow_id, detach, as_json, require_confidence
        )
    )


def _question(given: str) -> str:
    if given != "-":
        return given
    try:
        return typer.get_text_stream("stdin").read()
    except UnicodeDecodeError:
        fail("the question on standard input is not UTF-8 text.", Exit.USAGE)


def _template(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"the prompt template can't be read: {error}", Exit.USAGE)


def _request(fields: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.request import explain

    try:
        return SelfConsistencyRequest(**fields)
    except ValidationError as error:
        fail(f"{explain(error)}.", Exit.USAGE)
