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

from commands import command, follow
from commands.command import Exit, fail, option_of, with_client
from commands.follow import New, Wanted
from commands.options import takes_fields
from mull.critique.criteria import Criterion
from mull.critique.guardrails import DEFAULT, default_guardrails, known_guardrails
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.request import Limits, MultiPathRequest
from mull.multipath.suite import TestFile
from mull.request import Request
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Bars

HELP = {
    "ask": """
Examples:

    mull ask "Is 91 prime?"
    mull ask "What is 17 * 23?" --answers number --preset thrifty
    mull ask - --json --require-confidence 0.8 < question.txt
    mull ask "Is it due?" --context contract.md --system lawyer.txt --set top_p=0.9

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 not to be built on (no
consensus, divided votes, a tie, fewer than three votes, cut short; --accept-any makes these 0), or
below --require-confidence or --require-probability, 5 cancelled, 130 detached (the run goes on).
""",
    "reflect": """
Examples:

    mull reflect "Compare Kafka and Pulsar for an audit log" > answer.md
    mull reflect "Document parse_date()" --draft draft.md --review-below 0.6
    mull reflect - --judge openai/gpt-5-mini --json < query.txt
    mull reflect "Reply to Ann: ..." --criterion "tone*2=It is courteous."
    mull reflect "Now answer her" --messages talk.json --context prices.md

The best draft goes to standard output, everything else to standard error. A judge sees what
--context and --messages give, since a draft may rest on it, but not --system and --set.

Guardrails cap the score of a draft that has a defect anyone can check, such as JSON that does not
parse or a citation of a source that is not there. One that needs sources or certain criteria, such
as no_sources, does nothing without them, even if --guardrail names it.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no draft, or none that a
judge could score (--accept-any makes this 0), or below --require-score, 5 cancelled, 130 detached
(the run goes on).
""",
    "agent": """
The agent chooses between research and code, unless --mode is given. A report cites its sources as
[1] and is checked against them; code is tested in a sandbox. The run also ends at any bound.

Examples:

    mull agent "Compare the two proposals" --docs notes > report.md
    mull agent "Write fib(n)" --tests test_fib.py --out fib.py
    mull agent - --docs /srv/docs --json --require-closed < prompt.txt

The report or the code goes to standard output or to --out, everything else to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no report and no code, or
still open: critiques, failing tests (--accept-any makes this 0, but not with --require-closed),
5 cancelled, 130 detached (the run goes on).
""",
}

BOUNDS, REVIEW = "Bounds", "A person's review"
ANSWERS, DRAFTS, JUDGES = "Model and answers", "Writer and draft", "Judges and criteria"
GUARDS, PATH, CODE = "Guardrails", "Path and models", "Code and its tests"
ASKED, FRAMING = "What the model is asked with", ("system", "context", "messages", "options")
BUDGETS = ("budget_tokens", "budget_usd", "budget_seconds")
LIMITS = ("wall_seconds", "cpu_seconds", "memory_mb", "disk_mb")
CRITERION_FORM = "NAME[*WEIGHT]=MEANING"

_file = partial(typer.Option, metavar="FILE")
_draft = partial(_file, rich_help_panel=DRAFTS)
_judge = partial(typer.Option, envvar="MULL_JUDGE_MODEL", metavar="MODEL")
_guard = partial(typer.Option, rich_help_panel=GUARDS)


@takes_fields(
    SelfConsistencyRequest,
    {
        ANSWERS: (
            "model", "prompt_template", "answers", "temperature", "seed", "max_output_tokens",
            "calibration",
        ),
        ASKED: FRAMING,
        "When to stop": (
            "preset", "rule", "min_responses", "max_responses", "quorum", "confidence_threshold",
            "entropy_threshold", "entropy_weight", "min_entropy_samples", "epsilon",
            "beta_threshold", "ahead_by", "futility",
        ),
        BOUNDS: ("max_concurrency", "hurry", *BUDGETS, "sample_timeout_seconds", "max_attempts"),
        REVIEW: ("review_when", "review_timeout_seconds"),
    },
)  # fmt: skip
def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    require_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with code 4 below this agreement.")
    ] = None,
    require_probability: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with code 4 below this, or where it is unknown."),
    ] = None,
    details: command.Details = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Start a run of self-consistency."""
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


@takes_fields(
    ReflectOnResultRequest,
    {
        DRAFTS: ("model", "format", "temperature", "seed", "max_output_tokens"),
        ASKED: FRAMING,
        JUDGES: ("judge_max_output_tokens", "panel", "criteria"),
        "When to revise": ("score_threshold", "max_revisions", "min_gain"),
        "Whether to reflect": ("reflect", "complexity", "min_complexity", "synthesis_follows"),
        BOUNDS: (*BUDGETS, "call_timeout_seconds", "max_attempts"),
        REVIEW: ("review_below", "review_timeout_seconds"),
    },
)
def reflect(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    draft: Annotated[
        str | None,
        _draft(help="Judge this draft instead of generating one; - reads standard input."),
    ] = None,
    source: Annotated[
        list[Path] | None, _draft(help="A text to cite as [1], [2] and so on; can be repeated.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        _judge(
            help="The model that judges; repeat it for a panel. The worker's judge by default.",
            rich_help_panel=JUDGES,
        ),
    ] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Your own criterion, {CRITERION_FORM}, instead of a preset; can be repeated.",
            metavar="CRITERION",
            rich_help_panel=JUDGES,
        ),
    ] = None,
    guardrail: Annotated[
        list[str] | None,
        _guard(help=guardrail_help(), metavar="NAME", autocompletion=known_guardrails),
    ] = None,
    no_guardrails: Annotated[
        bool, _guard("--no-guardrails", help="Run only the guardrails that --guardrail names.")
    ] = False,
    require_score: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with code 4 below this score, or without a score."),
    ] = None,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Start a run of reflection."""
    if (query, draft) == ("-", "-"):
        fail("QUERY and --draft can't both read standard input.", Exit.USAGE)
    fields["query"] = subject_of(query, "the query")
    fields["draft"] = None if draft is None else command.read_given("--draft", draft)
    fields["sources"] = [command.read_file("--source", path) for path in source or []]
    fields["judges"] = judge or []
    if criterion:
        fields["criteria"] = _own_criteria(fields["criteria"], criterion)
    unknown = [name for name in guardrail or [] if name not in known_guardrails()]
    if unknown:
        expected = f"expected any of {', '.join(known_guardrails())}"
        fail(f"--guardrail: unknown guardrail {', '.join(unknown)}; {expected}.", Exit.USAGE)
    if guardrail or no_guardrails:
        fields["guardrails"] = [*([] if no_guardrails else ["default"]), *(guardrail or [])]
    begin(ReflectOnResultRequest, fields, new, wanted._replace(required=require_score))


@takes_fields(Limits, {"Each run of the code in the sandbox": LIMITS})
@takes_fields(
    MultiPathRequest,
    {
        "Documents": ("docs", "passages"),
        PATH: ("mode", "model", "creative", "temperature", "seed", "max_output_tokens"),
        "How long to revise": ("max_revisions",),
        CODE: ("packages", "entry", "language"),
        BOUNDS: (*BUDGETS, "call_timeout_seconds", "max_attempts"),
        REVIEW: ("review_open", "review_timeout_seconds"),
    },
)
def agent(
    prompt: Annotated[str, typer.Argument(help="The task; - reads it from standard input.")],
    judge: Annotated[
        str | None,
        _judge(
            help="The model that reflects on reports. The worker's judge by default.",
            rich_help_panel=PATH,
        ),
    ] = None,
    tests: Annotated[
        Path | None,
        _file(
            help="Your tests: test_*.py or *_test.py for pytest, else a script. They import"
            " the code as `solution` and imply --mode code. Without tests the prompt's"
            " examples are used, or else the model writes tests first.",
            rich_help_panel=CODE,
        ),
    ] = None,
    out: Annotated[Path | None, _file(help="Write the report or the code to this file.")] = None,
    require_closed: Annotated[
        bool,
        typer.Option("--require-closed", help="Exit with code 4 if critiques or an error remain."),
    ] = False,
    *,
    new: New,
    wanted: Wanted,
    **fields: Any,
) -> None:
    """Start a run of the multi-path agent."""
    if out is not None and new.detach:
        fail("--out and --detach can't be combined.", Exit.USAGE)
    coding = {"tests": tests, "packages": fields["packages"], "entry": fields["entry"]}
    for option, given in coding.items():
        if fields["mode"] == "research" and given is not None:
            said = f"--{option} is only for code, and can't be combined with --mode research."
            fail(said, Exit.USAGE)
    limits = {name: bound for name in LIMITS if (bound := fields.pop(name)) is not None}
    fields["limits"] = limits or None
    fields["prompt"] = subject_of(prompt, "the prompt")
    fields["judge"] = judge
    if tests is not None:
        fields["tests"] = _tests(tests)
        fields["mode"] = "code"
    place = None if out is None else command.place_for("--out", out)
    wanted = wanted._replace(required=1.0 if require_closed else None, out=place)
    begin(MultiPathRequest, fields, new, wanted)


def subject_of(given: str, what: str) -> str:
    """Return a command's argument; - reads it from standard input."""
    return command.read_stdin(what) if given == "-" else given


ENTROPY = ("combined", "entropy_only")
REFLECTING = (
    "reflect_every", "reflect_on_uncertainty", "reflection_feeds_back", "max_reflections",
)  # fmt: skip
# Fields that have an effect only with some values of another field, and only beside another one.
LEARNING = ("reflexion", "last_episode_and_reflexion")
ONLY_WITH: dict[str, tuple[str, tuple[object, ...]]] = {
    "confidence_threshold": ("rule", (*ENTROPY, "confidence_only", "off")),
    "entropy_threshold": ("rule", ENTROPY),
    "entropy_weight": ("rule", ("combined",)),
    "min_entropy_samples": ("rule", ENTROPY),
    "epsilon": ("rule", ("predictive",)),
    "beta_threshold": ("rule", ("beta",)),
    "ahead_by": ("rule", ("ahead_by",)),
    "creative": ("mode", (None, "research")),
    **dict.fromkeys(REFLECTING, ("think_level", ("low", "medium", "high"))),
    **dict.fromkeys(("memory", "reflector"), ("strategy", LEARNING)),
}
ONLY_BESIDE = {
    "passages": ("docs",),
    "scope": ("memory",),
    "review_timeout_seconds": ("review_when", "review_below", "review_open"),
}
# Where a batch asks what the options of a command say: what would begin is put here instead.
instead: ContextVar[list[tuple[dict[str, Any], New, Wanted]] | None]
instead = ContextVar("instead", default=None)


def begin(kind: type[Request], fields: dict[str, Any], new: New, wanted: Wanted) -> None:
    """Start the run of a command, or exit where its fields make no request of this kind."""
    if (asked := instead.get()) is not None:
        asked.append((fields, new, wanted))
        return
    request = command.checked(kind, fields)
    for note in unused(request, {name for name, value in fields.items() if value is not None}):
        command.tell(f"Note: {note}.")

    with_client(lambda client: follow.start(client, request, new, wanted))


def _own_criteria(preset: str | None, given: Sequence[str]) -> list[dict[str, object]]:
    if preset is not None:
        fail("--criteria and --criterion can't be combined.", Exit.USAGE)
    found = []
    for text in given:
        head, _, meaning = text.partition("=")
        name, star, weight = head.partition("*")
        if not meaning.strip():
            example = '"tone*2=It is courteous."'
            fail(f"--criterion: expected {CRITERION_FORM}, such as {example}", Exit.USAGE)
        known: dict[str, Any] = {
            "name": name.strip(),
            "meaning": meaning,
            "weight": weight if star else None,
        }
        with suppress(ValueError):  # what is no number is refused below, by the field's name
            known["weight"] = float(weight) if star else None
        found.append(command.checked(Criterion, known, "--criterion").model_dump())
    return found


def _tests(path: Path) -> dict[str, str]:
    """Read a file of tests, or exit if it is not Python, before any model is called."""
    known = {"name": path.name, "text": command.read_file("--tests", path)}
    command.checked(TestFile, known, "--tests")
    if path.suffix == ".py":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(known["text"], path.name)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            fail(f"--tests: {path} is not Python: {error}.", Exit.USAGE)
    return known


def unused(request: Any, given: Collection[str]) -> list[str]:
    """Name the given fields that have no effect in this request, and say why, as options."""
    said = []
    for field, (other, values) in ONLY_WITH.items():
        # Futility compares with the threshold, whatever the rule.
        needed = field == "confidence_threshold" and "futility" in given
        if field not in given or needed or not hasattr(request, other):
            continue
        if getattr(request, other) not in values:
            why = f"{option_of(other)} {getattr(request, other)}"
            said.append(f"{option_of(field)} has no effect with {why}")
    for field, others in ONLY_BESIDE.items():
        known = [other for other in others if hasattr(request, other)]
        if known and field in given and not any(getattr(request, other) for other in known):
            said.append(f"{option_of(field)} has no effect without {option_of(known[0])}")
    return said
