"""`replay`: try every stopping rule on answers that were recorded before."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from commands.measuring.recordings import read_recordings
from commands.options import Json
from commands.session import fail

if TYPE_CHECKING:
    from reflection.convergence.replaying.comparison import Outcome
    from reflection.convergence.replaying.replay import Recorded
    from reflection.convergence.request import AnswerKind
    from reflection.convergence.rules.settings import Stopping

HELP = """Replay recorded answers through the stopping rules, to choose one for your own data.

FILE has one JSON object a line: {"id": 1, "gold": "4", "answers": ["4", "5", null]}. In the
place of gold, "ok" may say of each answer whether it is right: "ok": [1, 0, 0]; where both are
there, ok counts. null is an answer that could not be read. Without gold and ok there are calls
and rounds, and no accuracy.

Each question is run through each rule in several orderings of its answers, the first as
recorded. Where a question has fewer answers than --max-responses, its run ends with them.
Rounds are waves of at most 16 calls side by side. Saved is the share of calls against taking
all. A rule is on the Pareto front (*) where no other is at least as accurate with at most as
many calls, and better in one of the two.

Examples:

    starter.py replay answers.jsonl --answers number

    starter.py replay answers.jsonl --max-responses 40 --rule predictive --rule combined

    starter.py replay answers.jsonl --reorderings 1 --json

Exit codes: 0 done, 2 wrong usage or a file that can't be read.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("replay", help=HELP)(replay)


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded answers, JSON lines.")],
    answers: Annotated[
        str, typer.Option(metavar="KIND", help="exact, text, number or choice.")
    ] = "exact",
    max_responses: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Answers at most, in each run.")
    ] = 10,
    reorderings: Annotated[
        int, typer.Option(metavar="K", min=1, help="Orderings of each question's answers.")
    ] = 40,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the orderings.")] = 0,
    rule: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="May be repeated; all by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a file, and print what each rule costs and how often it is right."""
    kind, rules = readable_kind(answers), _rules(rule or [], max_responses)
    questions = read_recordings(file, kind)
    outcomes = _outcomes(questions, rules, reorderings, Random(seed))  # noqa: S311 - no secret
    if as_json:
        named = {name: outcome.model_dump(mode="json") for name, outcome in outcomes.items()}
        sys.stdout.write(json.dumps({"questions": len(questions), "rules": named}) + "\n")
    else:
        _print(outcomes)
        for line in _remarks(questions, max_responses):
            typer.echo(line)


def orderings(answers: int, most: int, count: int, chance: Random) -> Iterator[Sequence[int]]:
    """Yield the recorded order of so many answers, then random ones, `count` in all.

    Each has the positions of at most `most` answers, drawn without replacement.
    """
    taken = min(answers, most)
    yield range(taken)
    for _ in range(count - 1):
        yield chance.sample(range(answers), taken)


def readable_kind(name: str) -> "AnswerKind":
    """Find a kind of answers that needs no model; another word ends with exit code 2."""
    from reflection.convergence.request import AnswerKind

    readable: dict[str, AnswerKind] = {kind: kind for kind in get_args(AnswerKind)}
    del readable["llm"]
    if name not in readable:
        fail(f"--answers takes {', '.join(readable)}; llm needs a model.", 2)
    return readable[name]


def _rules(names: Sequence[str], max_responses: int) -> "dict[str, Stopping]":
    from reflection.convergence.rules.settings import Rule, Stopping

    known = get_args(Rule)
    if not set(names) <= set(known):
        fail(f"no such rule: take {', '.join(known)}.", 2)
    return {name: Stopping(rule=name, max_responses=max_responses) for name in names or known}


def _outcomes(
    questions: "Sequence[Recorded]", rules: "Mapping[str, Stopping]", count: int, chance: Random
) -> "dict[str, Outcome]":
    from reflection.convergence.replaying.comparison import compare
    from reflection.convergence.replaying.replay import Replay

    replayed = Replay(list(rules.values()))
    most = max(settings.max_responses for settings in rules.values())
    runs = [
        replayed.runs(question, orderings(len(question.votes), most, count, chance))
        for question in _followed(questions)
    ]
    return compare(dict(zip(rules, map(list, zip(*runs, strict=True)), strict=True)))


def _followed(questions: "Sequence[Recorded]") -> "Iterator[Recorded]":
    shown = sys.stderr.isatty()
    for done, question in enumerate(questions):
        if shown and done % 10 == 0:
            sys.stderr.write(f"\rquestion {done:,} of {len(questions):,}")
            sys.stderr.flush()
        yield question
    if shown:
        sys.stderr.write("\r" + " " * 40 + "\r")


def _print(outcomes: "Mapping[str, Outcome]") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule")
    for name in ("calls", "rounds", "saved", "accuracy", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("Pareto")
    for name, outcome in sorted(outcomes.items(), key=lambda pair: pair[1].calls):
        table.add_row(name, *_cells(outcome), style="bold" if outcome.pareto else None)
    Console().print(table)


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    costs = (f"{outcome.calls:.2f}", f"{outcome.rounds:.2f}", f"{outcome.saved:.1%}")
    if outcome.accuracy is None or outcome.accuracy_ci is None:
        return (*costs, "-", "-", "-")
    low, high = outcome.accuracy_ci
    mark = "*" if outcome.pareto else ""
    return (*costs, f"{outcome.accuracy:.2%}", f"{low:.1%} to {high:.1%}", mark)


def _remarks(questions: "Sequence[Recorded]", max_responses: int) -> Iterator[str]:
    yield f"{len(questions):,} questions; * is on the Pareto front of calls and accuracy."
    votes = [vote for question in questions for vote in question.votes]
    short = sum(len(question.votes) < max_responses for question in questions)
    unjudged = sum(question.right is None for question in questions)
    if unread := sum(vote < 0 for vote in votes):
        yield f"{unread / len(votes):.1%} of the answers can't be read, and never vote."
    if short:
        yield f"{short:,} have fewer than {max_responses} answers: runs end with these."
    if unjudged:
        yield f"{unjudged:,} have neither gold nor ok, and count for no accuracy."
