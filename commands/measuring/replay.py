"""`replay`: try every stopping rule on answers that were recorded before."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Annotated, Any, get_args

import typer
from pydantic import Field

from commands.command import Json, checked, fail, place_for, print_json, read_file, write_file
from commands.help import COMMON
from commands.options import takes_fields
from commands.plans import Fields, read_lines, require_scipy
from mull.request import Record
from mull.sampling.probability import Provenance, Setup
from mull.sampling.prompts import hash_prompt
from mull.sampling.replay import (
    AGREEING,
    MAX_CONCURRENCY,
    Cascade,
    Recorded,
    Replay,
    RuleOutcome,
    cascade,
    compare_rules,
    orderings,
    recorded,
)
from mull.sampling.request import AnswerKind, SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.sampling.rules import Rule, Stopping
from mull.sheet import Chart, Curve, Sheet, Table, Verdict, table
from mull.text import percent, tally_words

FORM = '{"id": 1, "gold": "4", "answers": ["4"]}'


MAP = "A map from agreement to probability"
# A map is for runs that end with an answer, whatever the quorum and futility.
APART = {"preset", "rule", "max_responses", "futility", "quorum"}
SETTINGS = tuple(name for name in Stopping.model_fields if name not in APART)
_fitting = partial(typer.Option, rich_help_panel=MAP)

LEGEND = (
    f"Means of a run; a round is up to {MAX_CONCURRENCY} calls at once, and saved is the share of"
    " calls avoided. Latency, where lines have tokens, sums the longest answer of each round. * is"
    " on the Pareto front: no rule is better in calls or accuracy, and as good in the other."
)


@takes_fields(Stopping, *SETTINGS, under="Rules")
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded answers, JSON lines.")],
    answers: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="exact, text, number or choice; else what FILE says."),
        COMMON,
    ] = None,
    max_responses: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=1000, help="The most answers of each run."),
        COMMON,
    ] = 10,
    reorderings: Annotated[
        int, typer.Option(metavar="K", min=1, help="Orderings of each question's answers.")
    ] = 40,
    seed: Annotated[int, typer.Option(metavar="S", help="The seed of the orderings.")] = 0,
    rule: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Can be repeated; all by default."),
        COMMON,
    ] = None,
    calibrate: Annotated[
        Path | None,
        _fitting(metavar="MAP.json", help="Fit a map for one rule, and write it."),
        COMMON,
    ] = None,
    target: Annotated[
        list[float] | None,
        _fitting(metavar="SHARE", min=0, max=1, help="How many must be right; 0.95 by default."),
    ] = None,
    model: Annotated[str | None, _fitting(help="The model that answered.")] = None,
    temperature: Annotated[float | None, _fitting(help="The temperature that it had.")] = None,
    prompt_template: Annotated[
        Path | None, _fitting(metavar="FILE", help="The prompt template that it was asked with.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result as a page."), COMMON
    ] = None,
    as_json: Json = False,
    **fields: Any,
) -> None:
    r"""Try the stopping rules on recorded answers, to choose one.

    FILE has one JSON object a line: {"id": 1, "gold": "4", "answers": ["4", "5", null]}. null
    is an answer that could not be read. Without gold, calls and rounds are shown, but no
    accuracy.

    For example:

        mull replay answers.jsonl --answers number
        mull replay answers.jsonl --max-responses 40 --rule predictive
        mull replay answers.jsonl --reorderings 1 --json
        mull replay answers.jsonl --rule predictive --calibrate map.json \
            --model openai/gpt-5-mini --temperature 0.7 --target 0.95

    Instead of gold, "ok" may say for each answer whether it is right: "ok": [1, 0, 0]; if both
    are given, ok counts. "tokens" may say how long each answer is; the latency of a run is then
    the sum over its rounds of the longest answer, in tokens. With --hurry the rule fixed counts
    what comes first: the shortest answers where there are tokens, otherwise the first ones of
    the line.

    Each question is run through each rule in several orderings of its answers, the first as
    recorded. If a question has fewer answers than --max-responses, its run ends after the last
    one. With at most 10 answers, predictive at epsilon 0.05 stops as ahead_by does, at three
    votes ahead.

    The share of votes is agreement, not a probability: models agree on wrong answers too. If
    "model" says of each line which of two models answered, and both answered the same questions
    (the same "id", or else "question"), a cascade is shown: three answers of one model where
    they agree, otherwise the other model, by the first --rule.

    --calibrate fits a map to how likely an answer is right, for one model and one --rule
    (combined by default), on half of the questions, and measures it on the other half. It takes
    100 labelled questions, better 400 or more. "model", "temperature", "prompt_hash" and "kind"
    (of --answers) may stand in the lines, as they do in those of `mull list --log FILE`: a log
    of your own runs, best with --rule fixed, in which gold is left for you to fill in.

    Exit codes: 0 done, 2 wrong usage or a file that can't be read.
    """
    # rich and scipy take a while to import, which `--help` should not wait for.
    from rich.console import Console
    from rich.progress import track

    from commands.html.rendering import page_html
    from commands.terminal import print_sheet

    lines = read_lines(file, Line.model_validate, FORM)
    kinds = (line.kind for line in lines)
    kind = readable_kind(answers or common("kind of answers, or --answers", kinds) or "exact")
    of_a_map = (target, model, temperature, prompt_template)
    if calibrate:
        require_scipy("replay --calibrate")
    elif any(one is not None for one in of_a_map):
        fail(f"an option under {MAP!r} has no effect without --calibrate.")
    rules = _rules(rule, {**fields, "max_responses": max_responses}, alone=calibrate is not None)
    places = {"--calibrate": calibrate, "--html": html}
    written = {option: place_for(option, path) for option, path in places.items() if path}
    questions = read_lines(file, partial(read_recording, kind), FORM, exact=True)
    console, chance = Console(stderr=True), Random(seed)  # noqa: S311 - no secret
    tracked = track(
        questions, "replaying", console=console, transient=True, disable=not console.is_terminal
    )
    if calibrate:
        from commands.measuring import maps

        template = prompt_template and read_file("--prompt-template", prompt_template)
        given = Provenance(
            model=model,
            temperature=temperature,
            prompt_hash=hash_prompt(template, kind) if template else None,
        )
        told = [given, *read_lines(file, Provenance.model_validate, FORM)]
        traits = {name: common(name, [getattr(one, name) for one in told]) for name in dict(given)}
        [stopping] = rules.values()
        setup = Setup(**traits, answers=kind, stopping=stopping)
        runs = maps.ended_runs(tracked, stopping, reorderings, chance)
        made, bins = maps.fit_map(calibrate.stem, setup, runs, target or [0.95], seed)
        write_file(written["--calibrate"], made.model_dump_json(indent=2) + "\n", "map")
        document = made.measured.model_dump(mode="json")
        hurries = stopping.rule == "fixed" and stopping.hurry > 0
        shown = maps.sheet(made, bins, _remarks(questions, max_responses, hurries=hurries))
    else:
        outcomes = _outcomes(rules, tracked, max_responses, reorderings, chance)
        draw = partial(orderings, most=max_responses, count=reorderings, sample=chance.sample)
        cascades = list(_cascades(next(iter(rules.values())), lines, questions, draw))
        further = {
            "cascades": [each.model_dump(mode="json") for each in cascades],
            "warnings": list(_remarks(questions, max_responses)),
        }
        document = {
            "questions": len(questions),
            "rules": {name: outcome.model_dump(mode="json") for name, outcome in outcomes.items()},
            **{name: found for name, found in further.items() if found},
        }
        shown = sheet_of(document)
    if as_json:
        print_json(document)
    else:
        console = Console()
        print_sheet(console, shown, label="calibrated" if calibrate else "replayed")
        if not calibrate:
            console.print(LEGEND, style="dim", highlight=False, markup=False)
    if html:
        write_file(written["--html"], page_html(shown))


def _rules(
    names: Sequence[str] | None, settings: dict[str, Any], *, alone: bool
) -> dict[str, Stopping]:
    """Build the named rules; all by default, or only the default one (`alone`), as for a map."""
    chosen = names or ([Stopping().rule] if alone else get_args(Rule))
    if not set(chosen) <= set(get_args(Rule)):
        fail(f"unknown rule; expected one of {', '.join(get_args(Rule))}.")
    if alone and len(set(chosen)) > 1:
        fail("--calibrate: a map is for one --rule.")
    return {name: checked(Stopping, {**settings, "rule": name}) for name in chosen}


def _outcomes(
    rules: dict[str, Stopping], questions: Iterable[Recorded], most: int, count: int, chance: Random
) -> dict[str, RuleOutcome]:
    """Run each question through each rule, in `count` orderings of at most so many answers."""
    replayed = Replay(list(rules.values()))
    runs = [
        replayed.runs(question, orderings(len(question.votes), most, count, chance.sample))
        for question in questions
    ]
    return compare_rules(dict(zip(rules, map(list, zip(*runs, strict=True)), strict=True)))


class Line(Record):
    """Whose answers a line has, their kind and question; None for what it does not say."""

    id: Any = None
    question: Any = None
    model: Any = None
    kind: str | None = None


def common(name: str, values: Iterable[Any]) -> Any:
    """Return the one value that is given, or None; exit if they differ."""
    told = {*values} - {None}
    if len(told) > 1:
        said = " and ".join(sorted(map(str, told)))
        fail(f"expected one {name}; options and lines say {said}.")
    return next(iter(told), None)


def _cascades(
    rule: Stopping,
    lines: Sequence[Line],
    questions: Sequence[Recorded],
    draw: Callable[[int], Iterator[Sequence[int]]],
) -> Iterator[Cascade]:
    """Run a log of two models through a cascade, in both orders."""
    known: dict[str, dict[str, Recorded]] = {}
    for line, question in zip(lines, questions, strict=True):
        name = line.question if line.id is None else line.id
        if line.model is not None and name is not None:
            known.setdefault(str(line.model), {})[str(name)] = question
    if len(known) != 2:
        return
    for first, second in permutations(known):
        both = [name for name in known[first] if name in known[second]]
        pairs = [(known[first][name], known[second][name]) for name in both]
        if pairs:
            orders = [zip(*(draw(len(one.votes)) for one in pair), strict=True) for pair in pairs]
            yield cascade((first, second), rule, pairs, orders)


def readable_kind(name: str) -> AnswerKind:
    """Return a kind of answers that needs no model, or exit with code 2."""
    readable: dict[str, AnswerKind] = {kind: kind for kind in get_args(AnswerKind)}
    del readable["llm"]
    if name not in readable:
        fail(f"--answers: expected one of {', '.join(readable)} (llm needs a model).")
    return readable[name]


class Recording(Record):
    """One question of the file."""

    answers: list[str | None] = Field(min_length=1)
    gold: str | None = None
    ok: list[Annotated[float, Field(ge=0, le=1, multiple_of=1)]] | None = None
    tokens: list[Annotated[int, Field(ge=0)]] | None = None


def read_recording(kind: AnswerKind, fields: Fields) -> Recorded:
    """Read a question's recorded answers. Raises ValueError."""
    line = Recording.model_validate(fields)
    return recorded(kind, line.answers, line.gold, line.ok, line.tokens)


def log_line(request: SelfConsistencyRequest, result: SelfConsistencyResult) -> str:
    """Write what the model answered in a run as a line of a log, with gold left to fill in."""
    given = [response for response in result.responses if response.author is None]
    spent = [response.spending for response in given]
    tokens = [spending.output_tokens if spending else 0 for spending in spent]
    line = {
        "question": request.question,
        "gold": None,
        "answers": [response.answer for response in given],
        "kind": request.answers,
        "model": result.model,
        "temperature": request.temperature,
        "prompt_hash": hash_prompt(request.prompt_template, request.answers, request.framing),
        "tokens": None if None in tokens else tokens,
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


class Document(Record):
    """What the JSON of a replay has for its sheet."""

    questions: int
    rules: dict[str, RuleOutcome]
    cascades: tuple[Cascade, ...] = ()
    warnings: tuple[str, ...] = ()


def sheet_of(document: Any) -> Sheet:
    """Draw the JSON of a replay: each rule's cost and accuracy, the cheapest first, and cascades.

    Raises ValueError.
    """
    known = Document.model_validate(document)
    outcomes = known.rules
    ranked = sorted(outcomes.items(), key=lambda pair: pair[1].calls)
    measured = all(outcome.tokens is not None for outcome in outcomes.values())
    lengths = ("tokens", "latency") if measured else ()
    named = ("calls", "rounds", "saved", *lengths, "accuracy", "95 % interval")
    rules = table(
        "Rules",
        ("rule", *(f"{name}|number" for name in named), "Pareto"),
        ((name, *_cells(outcome, lengths)) for name, outcome in ranked),
        tones=tuple("good" if outcome.pareto else "plain" for _, outcome in ranked),
    )
    said = f"{tally_words(known.questions, 'question')} by {tally_words(len(outcomes), 'rule')}"
    curves = tuple(
        Curve(name=name, points=tuple(getattr(outcome, name) for _, outcome in ranked))
        for name in ("accuracy", "saved")
    )
    places = tuple(name for name, _ in ranked)
    chart = Chart(
        title="What calls buy", axis="rules, the cheapest first", curves=curves, places=places
    )
    return Sheet(
        subject="Which stopping rule?",
        verdict=Verdict(words=said),
        flags=known.warnings,
        charts=(chart,) if len(ranked) > 2 else (),
        tables=(rules, *([_cascade_table(known.cascades)] if known.cascades else ())),
    )


def _cascade_table(cascades: Sequence[Cascade]) -> Table:
    """Show what each cascade costs beside its second model alone, and what it loses."""

    def cells(each: Cascade) -> Iterator[str]:
        yield from (each.first, each.second, percent(each.passed_on))
        for name in ("calls", "tokens"):
            costs = getattr(each.cascade, name), getattr(each.alone, name)
            yield " / ".join("-" if cost is None else f"{cost:,.4g}" for cost in costs)
        if each.lost is None or each.lost_ci is None:
            yield "-"
        else:
            low, high = (100 * end for end in each.lost_ci)
            yield f"{percent(each.lost)} ({low:.1f} to {high:.1f})"

    numbers = ("passed on", "calls", "tokens", "accuracy lost")
    return table(
        "Cascades (with one / second alone)",
        (f"{AGREEING} agree", "else", *(f"{name}|number" for name in numbers)),
        map(tuple, map(cells, cascades)),
    )


def _cells(outcome: RuleOutcome, lengths: Sequence[str]) -> tuple[str, ...]:
    told = (f"{getattr(outcome, name):,.0f}" for name in lengths)
    costs = (f"{outcome.calls:.2f}", f"{outcome.rounds:.2f}", percent(outcome.saved), *told)
    if outcome.accuracy is None or outcome.accuracy_ci is None:
        return (*costs, "-", "-", "-")
    low, high = (100 * end for end in outcome.accuracy_ci)
    mark = "*" if outcome.pareto else ""
    return (*costs, f"{100 * outcome.accuracy:.2f} %", f"{low:.1f} to {high:.1f}", mark)


def _remarks(
    questions: Sequence[Recorded], max_responses: int, *, hurries: bool = False
) -> Iterator[str]:
    votes = [vote for question in questions for vote in question.votes]
    short = sum(len(question.votes) < max_responses for question in questions)
    unjudged = sum(question.right is None for question in questions)
    if unread := sum(vote < 0 for vote in votes):
        yield f"{percent(unread / len(votes))} of the answers can't be read, and do not vote."
    if short:
        yield f"{short:,} have fewer than {max_responses} answers: their runs end early."
    if hurries and any(question.tokens is None for question in questions):
        yield "Without tokens, --hurry counts the first answers of a line, not the shortest."
    if unjudged:
        yield f"{unjudged:,} have neither gold nor ok, and do not count for the accuracy."
