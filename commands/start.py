"""`ask`, `reflect` and `agent`: start a run, show it live, and print its result."""

import ast
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from commands import command
from commands.command import fail, flag, option_of, options_of, with_client
from commands.help import COMMON, LAST
from commands.options import New, Wanted, settled, takes_fields
from mull.critique.criteria import Criterion
from mull.critique.guardrails import DEFAULT, default_guardrails, known_guardrails
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.request import Limits, MultiPathRequest
from mull.multipath.suite import TestFile
from mull.request import Request
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Bars

CRITERION_FORM = "NAME[*WEIGHT]=MEANING"

_file = partial(typer.Option, metavar="FILE")
_share = partial(typer.Option, min=0, max=1, metavar="SHARE", rich_help_panel=LAST)
_guard = partial(typer.Option, rich_help_panel="Guardrails")


@takes_fields(SelfConsistencyRequest)
def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    require_confidence: Annotated[
        float | None,
        _share(help="Exit with code 4 below this agreement."),
        COMMON,
    ] = None,
    require_probability: Annotated[
        float | None,
        _share(help="Exit with code 4 below this chance, or if it is unknown."),
    ] = None,
    details: Annotated[
        bool,
        flag("--details", help="Print all facts and votes of an answer.", rich_help_panel=LAST),
        COMMON,
    ] = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Ask until the answers agree: for what has one right answer.

    For example:

        mull ask "Is 91 prime?"
        mull ask "What is 17 * 23?" --answers number --preset thrifty
        mull ask - --json --require-confidence 0.8 < question.txt
        mull ask "Is it due?" --context contract.md --set top_p=0.9

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 not to be built on (no
    consensus, divided votes, a tie, fewer than three votes, cut short; --accept-any makes these
    0), or below --require-confidence or --require-probability, 5 cancelled, 130 detached (the
    run goes on).
    """
    fields["question"] = subject_of(question, "the question")
    bars = Bars(require_confidence, require_probability)
    wanted = wanted._replace(required=bars if bars != Bars() else None, details=details)
    begin(SelfConsistencyRequest, fields, new, wanted)


def guardrail_help() -> str:
    """Say which guardrails run by default, and which only if they are named."""
    by_default = default_guardrails()
    others = [name for name in known_guardrails() if name not in {DEFAULT, *by_default}]
    said = f"Run this guardrail; can be repeated. Run by default: {', '.join(by_default)}."
    return f"{said} Only when named: {', '.join(others)}." if others else said


@takes_fields(ReflectOnResultRequest)
def reflect(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    draft: Annotated[
        str | None,
        _file(
            help="Judge this draft instead of generating one; - reads standard input.",
            rich_help_panel="Draft",
        ),
        COMMON,
    ] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Your own criterion, {CRITERION_FORM}, instead of a preset; can be repeated.",
            metavar="CRITERION",
            rich_help_panel="Judges and criteria",
        ),
    ] = None,
    guardrail: Annotated[
        list[str] | None,
        _guard(help=guardrail_help(), metavar="NAME", autocompletion=known_guardrails),
    ] = None,
    no_guardrails: Annotated[
        bool,
        _guard("--no-guardrails", metavar="", help="Run only those that --guardrail names."),
    ] = False,
    require_score: Annotated[
        float | None,
        _share(help="Exit with code 4 below this score, or without a score."),
        COMMON,
    ] = None,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Write or take a draft, judge it, and revise it while it is weak.

    For example:

        mull reflect "Compare Kafka and Pulsar for an audit log" > answer.md
        mull reflect "Document parse_date()" --draft draft.md --review-below 0.6
        mull reflect - --judge openai/gpt-5-mini --json < query.txt
        mull reflect "Reply to Ann: ..." --criterion "tone*2=It is courteous."
        mull reflect "Now answer her" --messages talk.json --context prices.md

    The best draft goes to standard output, everything else to standard error. A judge sees what
    --context and --messages give, since a draft may rest on it, but not --system and --set.

    Guardrails cap the score of a draft that has a defect anyone can check, such as JSON that
    does not parse or a citation of a source that is not there. One that needs sources or
    certain criteria, such as no_sources, does nothing without them, even if --guardrail names
    it.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no draft, one that was
    cut off, or none that a judge could score (--accept-any makes these 0), or below
    --require-score, 5 cancelled, 130 detached (the run goes on).
    """
    if (query, draft) == ("-", "-"):
        fail("QUERY and --draft can't both read standard input.")
    fields["query"] = subject_of(query, "the query")
    fields["draft"] = None if draft is None else command.read_given("--draft", draft)
    if criterion:
        fields["criteria"] = _own_criteria(fields["criteria"], criterion)
    unknown = [name for name in guardrail or [] if name not in known_guardrails()]
    if unknown:
        expected = f"expected any of {', '.join(known_guardrails())}"
        fail(f"--guardrail: unknown guardrail {', '.join(unknown)}; {expected}.")
    if guardrail or no_guardrails:
        fields["guardrails"] = [*([] if no_guardrails else ["default"]), *(guardrail or [])]
    begin(ReflectOnResultRequest, fields, new, wanted._replace(required=require_score))


@takes_fields(Limits)
@takes_fields(MultiPathRequest)
def agent(
    prompt: Annotated[str, typer.Argument(help="The task; - reads it from standard input.")],
    tests: Annotated[
        Path | None,
        _file(
            help="Your tests: test_*.py or *_test.py for pytest, else a script. They import"
            " the code as `solution` and imply --mode code. Without tests the prompt's"
            " examples are used, or else the model writes tests first.",
            rich_help_panel="Code and its tests",
        ),
        COMMON,
    ] = None,
    out: Annotated[
        Path | None,
        _file(help="Write the report or the code to this file.", rich_help_panel=LAST),
        COMMON,
    ] = None,
    require_closed: Annotated[
        bool,
        flag(
            "--require-closed",
            help="Exit with code 4 if critiques or an error remain.",
            rich_help_panel=LAST,
        ),
        COMMON,
    ] = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Write a report from documents, or code that passes its tests.

    The agent chooses between research and code, unless --mode is given. A report cites its
    sources as [1] and is checked against them; code is tested in a sandbox. The run also ends
    when it reaches a bound.

    For example:

        mull agent "Compare the two proposals" --docs notes > report.md
        mull agent "Write fib(n)" --tests test_fib.py --out fib.py
        mull agent - --docs /srv/docs --json --require-closed < prompt.txt

    The report or the code goes to standard output or to --out, everything else to standard
    error.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no report and no code,
    or still open: critiques, failing tests (--accept-any makes this 0, but not with
    --require-closed), 5 cancelled, 130 detached (the run goes on).
    """
    if out is not None and new.detach:
        fail("--out and --detach can't be combined.")
    coding = {"tests": tests, "packages": fields["packages"], "entry": fields["entry"]}
    for option, given in coding.items():
        if fields["mode"] == "research" and given is not None:
            fail(f"--{option} is only for code, and can't be combined with --mode research.")
    known = {name: fields.pop(name) for name in options_of(Limits)}
    fields["limits"] = {name: one for name, one in known.items() if one is not None} or None
    fields["prompt"] = subject_of(prompt, "the prompt")
    if tests is not None:
        fields["tests"] = _tests(tests)
        fields["mode"] = "code"
    place = None if out is None else command.place_for("--out", out)
    wanted = wanted._replace(required=1.0 if require_closed else None, out=place)
    begin(MultiPathRequest, fields, new, wanted)


def subject_of(given: str, what: str) -> str:
    """Return a command's argument; - reads it from standard input."""
    return command.read_stdin(what) if given == "-" else given


# While a batch reads the options of a command, what the command would start is put here instead.
instead: ContextVar[list[tuple[dict[str, Any], New, Wanted]] | None]
instead = ContextVar("instead", default=None)


def begin(
    kind: type[Request],
    fields: dict[str, Any],
    new: New,
    wanted: Wanted,
    typed: Collection[str] | None = None,
) -> None:
    """Start the run of a command, or exit if its fields make no valid request.

    With the names of those that were `typed`, `fields` have what files of settings give.
    """
    # What follows a run takes a while to import, which `--help` should not wait for.
    from commands import follow

    if typed is None:
        typed = {name for name, value in fields.items() if value is not None}
        fields = settled(kind, fields, new.profile)
    if (asked := instead.get()) is not None:
        asked.append((fields, new, wanted))
        return
    request = command.checked(kind, fields)
    for note in unused(request, typed):
        command.tell(f"Note: {note}.")

    with_client(lambda client: follow.start(client, request, new, wanted))


def _own_criteria(preset: str | None, given: Sequence[str]) -> list[dict[str, object]]:
    if preset is not None:
        fail("--criteria and --criterion can't be combined.")
    found = []
    for text in given:
        head, _, meaning = text.partition("=")
        name, star, weight = head.partition("*")
        if not meaning.strip():
            example = '"tone*2=It is courteous."'
            fail(f"--criterion: expected {CRITERION_FORM}, such as {example}")
        known: dict[str, Any] = {
            "name": name.strip(),
            "meaning": meaning,
            "weight": weight if star else None,
        }
        with suppress(ValueError):  # a weight that is not a number is refused below
            known["weight"] = float(weight) if star else None
        found.append(command.checked(Criterion, known, "--criterion").model_dump())
    return found


def _tests(path: Path) -> dict[str, str]:
    """Read a file of tests, or exit if it is not Python, before any model is called."""
    known = {"name": path.name, "text": command.read_file("--tests", path)}
    command.checked(TestFile, known, "--tests")
    if fault := python_fault(**known):
        fail(f"--tests: {path} is not Python: {fault}.")
    return known


def python_fault(name: str, text: str) -> str:
    """Say why a text is not Python; empty if it is, or its name is not that of a file of Python."""
    if name.endswith(".py"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text, name)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return str(error)
    return ""


def unused(request: Request, given: Collection[str]) -> list[str]:
    """Name the given fields that have no effect in this request, and say why, as options."""
    said, kind = [], type(request)
    for field, option in options_of(kind).items():
        others = [one for one in (option.only_with or {}).items() if hasattr(request, one[0])]
        known = [(getattr(request, other), values) for other, values in others]
        # 0 is a value, too.
        effects = [
            bool(value) or type(value) in {int, float} if values is None else value in values
            for value, values in known
        ]
        if field in given and effects and not any(effects):
            other, values = others[0]
            why = (
                f"out {option_of(kind, other)}"
                if values is None
                else f" {option_of(kind, other)} {known[0][0]}"
            )
            said.append(f"{option_of(kind, field)} has no effect with{why}")
    return said
