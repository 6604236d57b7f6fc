"""`ask`, `reflect` and `agent`: start a run, show it live, and print its result."""

import ast
import os
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from commands.inputs import checked, read_file, read_stdin, read_text
from commands.options import Detach, Json, NewId, takes_fields
from commands.session import Exit, fail, with_client

ASK = """Ask a question and sample until the answers converge.

Examples:

    mull ask "Is 91 prime?"

    mull ask "What is 17 * 23?" --answers number --preset thrifty

    mull ask - --json --require-confidence 0.8 < question.txt

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 below the bar or
no consensus, 5 cancelled, 130 detached (the run goes on).
"""
REFLECT = """Write a draft, judge it, revise it while its score is low, and print the best one.

Examples:

    mull reflect "Compare Kafka and Pulsar for an audit log" > answer.md

    mull reflect "Document parse_date()" --draft draft.md --criteria documentation

    mull reflect - --judge openai/gpt-5-mini --max-revisions 2 --json < query.txt

    mull reflect "Reply to Ann: ..." --criterion "tone*2=It is courteous." --review-below 0.6

The best draft goes to standard output, everything else to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 below --require-score or
no draft, 5 cancelled, 130 detached (the run goes on).
"""
AGENT = """Research documents or write code: draft, check, and revise until nothing is open.

The agent chooses between research and code, unless --mode is given. A report cites its sources as
[1] and is checked against them; code is tested in a sandbox. The run also ends at any bound.

Examples:

    mull agent "Compare the two proposals" --docs notes > report.md

    mull agent "Write fib(n)" --mode code --tests test_fib.py --out fib.py

    mull agent - --docs /srv/docs --json --require-closed < prompt.txt

The report or the code goes to standard output or to --out, everything else to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no report and no code, or
open with --require-closed, 5 cancelled, 130 detached (the run goes on).
"""

BOUNDS, REVIEW = "Bounds", "A person's review"
BUDGETS = ("budget_tokens", "budget_usd", "budget_seconds")
CRITERION_FORM = "NAME[*WEIGHT]=MEANING"
LIMITS = ("wall_seconds", "cpu_seconds", "memory_mb", "disk_mb")


def register(app: typer.Typer, wanted: Collection[str]) -> None:
    """Add the commands to the command line.

    Options come from requests, which are slow to import, so only the `wanted` commands get them.
    """
    for name, said, made in (("ask", ASK, _ask), ("reflect", REFLECT, _reflect)):
        app.command(name, help=said)(made() if name in wanted else _without_options)
    app.command("agent", help=AGENT)(_agent() if "agent" in wanted else _without_options)


def _without_options() -> None:
    """Stand in for a command whose options are not needed."""


def _ask() -> Callable[..., None]:
    from reflection.sampling.request import SelfConsistencyRequest

    answers = "Model and answers"

    @takes_fields(
        SelfConsistencyRequest,
        {
            answers: ("model", "answers", "temperature", "seed", "max_output_tokens"),
            "When to stop": (
                "preset", "rule", "min_responses", "max_responses", "quorum",
                "confidence_threshold", "entropy_threshold", "entropy_weight",
                "min_entropy_samples", "epsilon", "beta_threshold", "ahead_by", "futility",
            ),
            BOUNDS: ("max_concurrency", *BUDGETS, "sample_timeout_seconds", "max_attempts"),
            REVIEW: ("review_when", "review_timeout_seconds"),
        },
    )  # fmt: skip
    def ask(
        question: Annotated[
            str, typer.Argument(help="The question; - reads it from standard input.")
        ],
        prompt_template: Annotated[
            Path | None,
            typer.Option(
                help="A file; the question replaces {question} in it, or is added at its end.",
                rich_help_panel=answers,
            ),
        ] = None,
        require_confidence: Annotated[
            float | None, typer.Option(min=0, max=1, help="Exit with code 4 below this confidence.")
        ] = None,
        workflow_id: NewId = None,
        detach: Detach = False,
        as_json: Json = False,
        **fields: Any,
    ) -> None:
        fields["question"] = read_stdin("the question") if question == "-" else question
        fields["model"] = fields["model"] or None
        if prompt_template is not None:
            fields["prompt_template"] = read_file("--prompt-template", prompt_template)
        request = checked(SelfConsistencyRequest, fields)
        _start(request, workflow_id, detach, as_json, require_confidence)

    return ask


def _reflect() -> Callable[..., None]:
    from reflection.critique.request import ReflectOnResultRequest

    drafts, judges, guards = "Writer and draft", "Judges and criteria", "Guardrails"

    @takes_fields(
        ReflectOnResultRequest,
        {
            drafts: ("model", "format", "temperature", "seed", "max_output_tokens"),
            judges: ("judge_max_output_tokens", "panel", "criteria"),
            "When to revise": ("score_threshold", "max_revisions", "min_gain"),
            "Whether to reflect": (
                "reflect", "complexity", "min_complexity", "synthesis_follows",
            ),
            BOUNDS: (*BUDGETS, "call_timeout_seconds", "max_attempts"),
            REVIEW: ("review_below", "review_timeout_seconds"),
        },
    )  # fmt: skip
    def reflect(
        query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
        draft: Annotated[
            str | None,
            typer.Option(
                help="Judge this draft instead of generating one; - reads standard input.",
                metavar="FILE",
                rich_help_panel=drafts,
            ),
        ] = None,
        source: Annotated[
            list[Path] | None,
            typer.Option(
                help="A text to cite as [1], [2] and so on; can be repeated.",
                metavar="FILE",
                rich_help_panel=drafts,
            ),
        ] = None,
        judge: Annotated[
            list[str] | None,
            typer.Option(
                help="The model that judges; repeat it for a panel. Default: the worker's judge.",
                envvar="MULL_JUDGE_MODEL",
                metavar="MODEL",
                rich_help_panel=judges,
            ),
        ] = None,
        criterion: Annotated[
            list[str] | None,
            typer.Option(
                help="Your own criterion, instead of a preset; can be repeated.",
                metavar=CRITERION_FORM,
                rich_help_panel=judges,
            ),
        ] = None,
        guardrail: Annotated[
            list[str] | None,
            typer.Option(
                help="The name of an additional guardrail; can be repeated.",
                metavar="NAME",
                rich_help_panel=guards,
            ),
        ] = None,
        no_guardrails: Annotated[
            bool,
            typer.Option(
                "--no-guardrails",
                help="Run only the guardrails that --guardrail names.",
                rich_help_panel=guards,
            ),
        ] = False,
        require_score: Annotated[
            float | None,
            typer.Option(
                min=0, max=1, help="Exit with code 4 below this score, or without a score."
            ),
        ] = None,
        workflow_id: NewId = None,
        detach: Detach = False,
        as_json: Json = False,
        **fields: Any,
    ) -> None:
        if (query, draft) == ("-", "-"):
            fail("QUERY and --draft can't both read standard input.", Exit.USAGE)
        fields["query"] = read_stdin("the query") if query == "-" else query
        fields["draft"] = None if draft is None else read_text("--draft", draft)
        fields["sources"] = [read_file("--source", path) for path in source or []]
        fields["model"] = fields["model"] or None
        fields["judges"] = judge or []
        fields["criteria"] = chosen_criteria(fields["criteria"], criterion or [])
        fields["guardrails"] = _guardrails(guardrail or [], only=no_guardrails)
        request = checked(ReflectOnResultRequest, fields)
        _start(request, workflow_id, detach, as_json, require_score)

    return reflect


def _agent() -> Callable[..., None]:
    from reflection.multipath.request import Limits, MultiPathRequest

    path, code = "Path and models", "Code and its tests"

    @takes_fields(Limits, {"Each run of the code in the sandbox": LIMITS})
    @takes_fields(
        MultiPathRequest,
        {
            "Documents": ("docs", "passages", "embedding_model"),
            path: ("mode", "model", "creative", "temperature", "seed", "max_output_tokens"),
            "How long to revise": ("max_revisions",),
            code: ("entry", "language"),
            BOUNDS: (*BUDGETS, "call_timeout_seconds", "max_attempts"),
            REVIEW: ("review_open", "review_timeout_seconds"),
        },
    )
    def agent(
        prompt: Annotated[str, typer.Argument(help="The task; - reads it from standard input.")],
        judge: Annotated[
            str | None,
            typer.Option(
                help="The model that reflects on reports. Default: the worker's judge.",
                envvar="MULL_JUDGE_MODEL",
                metavar="MODEL",
                rich_help_panel=path,
            ),
        ] = None,
        tests: Annotated[
            Path | None,
            typer.Option(
                help="Your tests: test_*.py or *_test.py for pytest, else a script. They import"
                " the code as `solution` and imply --mode code. Without tests the prompt's"
                " examples are used, or else the model writes tests first.",
                metavar="FILE",
                rich_help_panel=code,
            ),
        ] = None,
        packages: Annotated[
            str | None,
            typer.Option(
                help="Packages that the code may import besides numpy and pytest, from the worker's"
                " own environment.",
                metavar="A,B",
                rich_help_panel=code,
            ),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option(help="Write the report or the code to this file.", metavar="FILE"),
        ] = None,
        require_closed: Annotated[
            bool,
            typer.Option(
                "--require-closed", help="Exit with code 4 if critiques or an error remain."
            ),
        ] = False,
        workflow_id: NewId = None,
        detach: Detach = False,
        as_json: Json = False,
        **fields: Any,
    ) -> None:
        if out is not None and detach:
            fail("--out and --detach can't be combined.", Exit.USAGE)
        given = {"--tests": tests, "--packages": packages, "--entry": fields["entry"]}
        refuse_for_research(fields["mode"], given)
        limits = {name: fields.pop(name) for name in LIMITS}
        fields["limits"] = {name: bound for name, bound in limits.items() if bound is not None}
        fields["prompt"] = read_stdin("the prompt") if prompt == "-" else prompt
        fields["model"], fields["judge"] = fields["model"] or None, judge or None
        fields["docs"] = _folder(fields["docs"])
        fields["tests"] = None if tests is None else read_tests("--tests", tests)
        fields["mode"] = fields["mode"] or (None if tests is None else "code")
        fields["packages"] = [name.strip() for name in (packages or "").split(",") if name.strip()]
        request = checked(MultiPathRequest, fields)
        bar = 1.0 if require_closed else None
        _start(request, workflow_id, detach, as_json, bar, out)

    return agent


def _start(
    request: Any,
    workflow_id: str | None,
    detach: bool,
    as_json: bool,
    bar: float | None,
    out: Path | None = None,
) -> None:
    from commands import follow

    place = None if out is None else follow.place_for("--out", out)
    with_client(
        lambda client: follow.start(client, request, workflow_id, detach, as_json, bar, place)
    )


def chosen_criteria(
    preset: str | None, own: Sequence[str]
) -> str | list[dict[str, str | float]] | None:
    """Return a preset's name or the user's own criteria, as the request takes them."""
    if preset is not None and own:
        fail("--criteria and --criterion can't be combined.", Exit.USAGE)
    return [_criterion(text) for text in own] if own else preset


def _criterion(text: str) -> dict[str, str | float]:
    from reflection.critique.criteria import Criterion

    head, _, meaning = text.partition("=")
    name, star, weight = head.partition("*")
    if not meaning.strip():
        example = '"tone*2=It is courteous."'
        fail(f"--criterion: expected {CRITERION_FORM}, such as {example}", Exit.USAGE)
    known: dict[str, Any] = {"name": name.strip(), "meaning": meaning.strip()}
    if star:
        try:
            known["weight"] = float(weight)
        except ValueError:
            fail("--criterion: the weight after * must be a number, such as 2.", Exit.USAGE)
    made = checked(Criterion, known, "--criterion")
    return {"name": made.name, "meaning": made.meaning, "weight": made.weight}


def _guardrails(named: list[str], *, only: bool) -> list[str]:
    """Return the guardrails to run, or exit if a name is unknown."""
    from reflection.critique.guardrails import known_guardrails

    known = known_guardrails()
    unknown = [name for name in named if name not in known]
    if unknown:
        said = f"unknown guardrail {', '.join(unknown)}; expected any of {', '.join(known)}"
        fail(f"--guardrail: {said}.", Exit.USAGE)
    return named if only else ["default", *named]


def _folder(given: str | None) -> str | None:
    """Make a folder's path absolute; only the worker can tell whether it exists."""
    if given is None:
        return None
    if not given.strip():
        fail("--docs: the folder's name is empty.", Exit.USAGE)
    return os.path.abspath(Path(given).expanduser())  # noqa: PTH100 - links are the worker's


def refuse_for_research(mode: str | None, given: dict[str, object]) -> None:
    """Exit if options for code are given while `mode` is research."""
    for option, value in given.items():
        if mode == "research" and value is not None:
            fail(
                f"{option} is only for code, and can't be combined with --mode research.",
                Exit.USAGE,
            )


def read_tests(option: str, path: Path) -> dict[str, str]:
    """Read a file of tests, or exit if it is not Python, before any model is called."""
    from reflection.multipath.suite import TestFile

    known = {"name": path.name, "text": read_file(option, path)}
    checked(TestFile, known, option)
    if path.suffix != ".py":
        return known
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(known["text"])
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        fail(f"{option}: {path}{where} is not Python: {error.msg}.", Exit.USAGE)
    except (ValueError, RecursionError, MemoryError):
        fail(f"{option}: {path} can't be read as Python.", Exit.USAGE)
    return known
