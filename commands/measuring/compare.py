"""`compare`: the same questions by several methods, to see whether reflection is worth its cost."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from pydantic import ValidationError

from commands import options
from commands.inputs import checked
from commands.measuring.plans import (
    BOUNDS,
    EVALUATION_OUT,
    Calls,
    Fields,
    Forecast,
    LineError,
    judge_tokens,
    read_lines,
    text_of,
    tokens_of,
)
from commands.measuring.replay import readable_kind
from commands.session import Exit, fail, with_client
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchResult
from reflection.critique.request import ReflectOnResultRequest
from reflection.run import encoded_size, explain
from reflection.sampling.answers import read_answer
from reflection.sampling.marks import find_marked
from reflection.sampling.prompts import build_prompt
from reflection.sampling.request import AnswerKind, SelfConsistencyRequest
from reflection.sampling.result import SelfConsistencyResult

if TYPE_CHECKING:
    from temporalio.client import Client

    from commands.measuring.batches import Order, Read

HELP = """FILE has one JSON object a line: {"question": "...", "gold": "42"}. Where gold is known,
answers are right or wrong: drafts are asked to end with a line "Answer: ". Without any gold the
judge scores each method's answer, in a second batch whose cost is shown separately.

`single` is one draft, `reflect` judges and revises it, `self_consistency` samples and votes. All
start from the same seed, so that a difference is the method's. A run that fails counts as wrong.

Repeat the command with the same --id to continue a cancelled batch, or to show one that has ended:
nothing is paid twice. It asks before it starts only in a terminal; --estimate starts nothing.

Examples:

    mull compare questions.jsonl --answers number --model gpt-5-mini

    mull compare questions.jsonl --methods single,reflect --estimate

    mull compare examples/questions.jsonl --answers number

The last one needs `mull dev` and no key, and takes many minutes; its toy model is mostly wrong.

Exit codes: 0 done, 1 failed or no run worked, 2 wrong usage or a file that can't be read, 3 no
server or worker, 5 cancelled or not agreed to, 130 detached (the batch goes on).
"""

FORM = '{"question": "What is 6 times 7?", "gold": "42"}'
METHODS = "single,reflect,self_consistency"
MARKED = '\n\nEnd with one line "Answer: " that has the final answer alone.'
# Of one call; other questions may take far less or more.
DRAFT_OUT, SAMPLE_OUT = 500, 300
ASSUMED = (
    f"{DRAFT_OUT} out for a draft, {EVALUATION_OUT} for an evaluation and {SAMPLE_OUT} for a "
    "sampled answer, and as many of them as there may be"
)
# A batch takes 1 MB of items and 2,000 runs; more are scored in several batches, one by one.
CHUNK_BYTES = 900_000
CHUNK_RUNS = 2_000
REFLECTION = "Reflection and its judge"

Scores = Mapping[tuple[int, str], float | None]


@options.takes_fields(
    ReflectOnResultRequest, {REFLECTION: ("criteria", "max_revisions", "score_threshold")}
)
@options.takes_fields(SelfConsistencyRequest, {"Sampling": ("model", "max_responses")})
@options.takes_fields(BatchRequest, {"Bounds": BOUNDS})
def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions, JSON lines.")],
    methods: Annotated[
        str, typer.Option(help="The methods to compare, comma-separated.")
    ] = METHODS,
    answers: Annotated[
        str, typer.Option(metavar="KIND", help="How answers compare: exact, text, number, choice.")
    ] = "exact",
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of every run, if the model takes one.")
    ] = 0,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="The judge; repeat it for a panel. Default: the worker's judge.",
            metavar="MODEL",
            envvar="MULL_JUDGE_MODEL",
            rich_help_panel=REFLECTION,
        ),
    ] = None,
    no_guardrails: Annotated[
        bool,
        typer.Option(
            "--no-guardrails", help="Use the judge's score unchanged.", rich_help_panel=REFLECTION
        ),
    ] = False,
    estimate: options.Estimate = False,
    yes: options.Yes = False,
    workflow_id: options.BatchId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
    **fields: Any,
) -> None:
    """Run every question with every method, and print how they compare."""
    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names or not set(names) <= set(METHODS.split(",")):
        fail(f"--methods: expected one or more of {METHODS}, comma-separated.", Exit.USAGE)
    kind = readable_kind(answers)
    alike = {"model": fields["model"] or None, "seed": seed}
    known = {name: fields[name] for name in ("criteria", "max_revisions", "score_threshold")}
    known |= {"query": "-", "judges": judge or [], "complexity": 1.0, **alike}
    known |= {"guardrails": []} if no_guardrails else {}
    asked = {"question": "-", "answers": kind, "max_responses": fields["max_responses"], **alike}
    plan = MethodPlan(
        methods=names,
        reflecting=checked(ReflectOnResultRequest, known),
        sampling=checked(SelfConsistencyRequest, asked),
        questions=read_lines(file, partial(read_question, kind), FORM),
    )
    bounds = {name: fields[name] for name in BOUNDS}
    request = plan.request(bounds)
    forecast = plan.forecast()
    if estimate:
        forecast.tell(as_json=as_json)
    from commands.measuring.batches import order

    agreed = partial(forecast.agreed, yes=yes)
    wanted = order("compare", file, request, agreed, workflow_id, detach, as_json)
    with_client(lambda client: _compare(client, wanted, plan, bounds))


class Question(NamedTuple):
    """A question, and its right answer in the form that votes, or None if it is not known."""

    question: str
    gold: str | None


def read_question(kind: AnswerKind, fields: Fields) -> Question:
    """Read a question and its gold. Raises LineError."""
    question, gold = text_of(fields, "question"), fields.get("gold")
    try:
        SelfConsistencyRequest(question=question)
    except ValidationError as error:
        raise LineError(explain(error)) from None
    if gold is None:
        return Question(question, None)
    if isinstance(gold, bool) or not isinstance(gold, str | int | float):
        raise LineError('"gold" is not text, a number or null')
    form = read_answer(kind, str(gold))
    if form is None:
        raise LineError(f'"gold" can\'t be read as {kind}')
    return Question(question, form)


class MethodPlan(NamedTuple):
    """The questions and the methods; both requests are those of each run, without its texts."""

    methods: Sequence[str]
    reflecting: ReflectOnResultRequest
    sampling: SelfConsistencyRequest
    questions: Sequence[Question]

    @property
    def has_gold(self) -> bool:
        """True if a right answer is known; otherwise a judge scores the answers."""
        return any(one.gold is not None for one in self.questions)

    @property
    def queries(self) -> list[str]:
        """The queries for drafts; with gold they ask for a marked answer."""
        return [one.question + MARKED * self.has_gold for one in self.questions]

    def request(self, bounds: Mapping[str, Any]) -> BatchRequest:
        """Build the batch's request, or exit with code 2."""
        pairs = zip(self.questions, self.queries, strict=True)
        items = [{"question": one.question, "query": query} for one, query in pairs]
        variants = [self._variant(method) for method in self.methods]
        request: BatchRequest = checked(
            BatchRequest, {"items": items, "variants": variants, **bounds}
        )
        return request

    def _variant(self, method: str) -> dict[str, Any]:
        workflow, takes = "ReflectOnResultWorkflow", {"query": "query"}
        fields = _given(self.reflecting, "query")
        if method == "self_consistency":
            workflow, takes = "SelfConsistencyWorkflow", {"question": "question"}
            fields = _given(self.sampling, "question")
        elif method == "single":
            alike = {name: fields[name] for name in ("model", "seed") if name in fields}
            fields = alike | {"reflect": False}
        return {"name": method, "workflow": workflow, "request": fields, "takes": takes}

    def scoring(self, items: Sequence[Mapping[str, str]], bounds: Mapping[str, Any]) -> Any:
        """Build the batch in which the judge scores the methods' answers."""
        fields = _given(self.reflecting, "query", "model", "seed", "score_threshold")
        variant = {
            "name": "scoring",
            "workflow": "ReflectOnResultWorkflow",
            "request": fields | {"max_revisions": 0},
            "takes": {"query": "query", "draft": "draft"},
        }
        return checked(BatchRequest, {"items": items, "variants": [variant], **bounds})

    def forecast(self) -> Forecast:
        """Count the calls of each method and their tokens, at their maximum."""
        parts = [part for method in self.methods for part in self._calls(method)]
        if not self.has_gold:
            parts += self._judging("scoring", len(self.questions) * len(self.methods))
        return Forecast(parts, ASSUMED)

    def _calls(self, method: str) -> list[Calls]:
        count, asked, model = len(self.questions), tokens_of(self.queries), self.reflecting.model
        if method == "single":
            return [Calls(method, model, count, asked, count * DRAFT_OUT)]
        if method == "self_consistency":
            most, kind = self.sampling.max_responses, self.sampling.answers
            prompts = (build_prompt(one.question, None, kind) for one in self.questions)
            calls, asked = most * count, most * tokens_of(prompts)
            return [Calls(method, model, calls, asked, calls * SAMPLE_OUT)]
        revisions = self.reflecting.max_revisions
        drafts = count * (1 + revisions)
        # A revision is shown the draft and the feedback on it.
        asked = asked * (1 + revisions) + count * revisions * (DRAFT_OUT + EVALUATION_OUT)
        writing = Calls("reflect, writing", model, drafts, asked, drafts * DRAFT_OUT)
        return [writing, *self._judging("reflect, judging", drafts)]

    def _judging(self, what: str, drafts: int) -> list[Calls]:
        prompts = sum(judge_tokens(self.reflecting, one.question, "") for one in self.questions)
        asked = drafts * (prompts // len(self.questions) + DRAFT_OUT)
        return [
            Calls(what, judge, drafts, asked, drafts * EVALUATION_OUT)
            for judge in self.reflecting.panel_judges
        ]


def _given(request: ReflectOnResultRequest | SelfConsistencyRequest, *less: str) -> dict[str, Any]:
    """Dump the fields of a request that were set, without those in `less`."""
    return request.model_dump(mode="json", exclude_unset=True, exclude=set(less))


class Answered(NamedTuple):
    """One method's answer to one question; `text` is complete, `answer` the compared form."""

    read: "Read"
    text: str | None
    answer: str | None
    revisions: int | None

    @property
    def failed(self) -> bool:
        """True if there is no answer."""
        return self.text is None


def answered(plan: MethodPlan, reads: "Sequence[Read]") -> list[Answered]:
    """List the answers of all runs that were made.

    Runs that were not started, were cancelled, or whose result is no longer kept are left out.
    """
    kept = [read for read in reads if read.result is not None or read.run.status == "failed"]
    return [_answered(plan, read) for read in kept]


def _answered(plan: MethodPlan, read: "Read") -> Answered:
    result, kind = read.result, plan.sampling.answers
    if result is None:
        return Answered(read, None, None, None)
    if isinstance(result, SelfConsistencyResult):
        final = result.final_answer
        return Answered(read, final, read_answer(kind, final), None)
    marked = find_marked(result.draft or "") if plan.has_gold else None
    form = read_answer(kind, marked.answer) if marked else None
    return Answered(read, result.draft, form, result.revisions)


async def _compare(
    client: "Client", wanted: "Order", plan: MethodPlan, bounds: dict[str, Any]
) -> Exit:
    from rich.console import Console

    from commands.measuring.batches import made
    from commands.measuring.comparison import findings, sheet
    from commands.terminal import print_sheet

    batch, reads = await made(client, wanted)
    answers = answered(plan, reads)
    scores, scoring = await _score(client, wanted, plan, answers, bounds, batch)
    found = findings(wanted.identity, plan, answers, scores, batch, scoring)
    if wanted.as_json:
        sys.stdout.write(json.dumps(found.document()) + "\n")
    else:
        print_sheet(Console(), sheet(found))
    return Exit.FAILED if found.all_failed else Exit.DONE


async def _score(
    client: "Client",
    first: "Order",
    plan: MethodPlan,
    answers: Sequence[Answered],
    bounds: Mapping[str, Any],
    spent: BatchResult,
) -> tuple[Scores, list[BatchResult]]:
    """Without right answers, let one judge score all answers, within what is left of the budgets.

    Returns scores by question and method (None for a failure), and the batches they come from.
    """
    from commands.measuring.batches import made

    chunks: list[list[tuple[dict[str, str], tuple[int, str]]]] = []
    size = 0
    for one in answers:
        if plan.has_gold or not (one.text and one.text.strip()):
            continue
        run = one.read.run
        item = {"query": plan.questions[run.item].question, "draft": one.text}
        more = sum(map(encoded_size, item.values())) + 50
        if not chunks or size + more > CHUNK_BYTES or len(chunks[-1]) == CHUNK_RUNS:
            chunks.append([])
            size = 0
        chunks[-1].append((item, (run.item, run.variant)))
        size += more
    found, batches = dict[tuple[int, str], float | None](), [spent]
    for number, chunk in enumerate(chunks, start=1):
        second = first._replace(
            identity=f"{first.identity}-scores" + (f"-{number}" if number > 1 else ""),
            request=plan.scoring([item for item, _ in chunk], remaining(bounds, batches)),
            summary=f"{first.summary}, scored",
            agreed=lambda: True,
        )
        batch, reads = await made(client, second)
        batches.append(batch)
        found |= {chunk[read.run.item][1]: read.result.score for read in reads if read.result}
    return found, batches[1:]


def remaining(bounds: Mapping[str, Any], batches: Sequence[BatchResult]) -> dict[str, Any]:
    """Return what is left of the budgets; an unknown cost counts as the largest known one."""
    runs = [run for batch in batches for run in batch.runs if run.status != "not_started"]
    left = dict(bounds)
    for budget, field, least in (("budget_tokens", "tokens", 1), ("budget_usd", "cost_usd", 1e-9)):
        if left[budget] is not None:
            values = [getattr(run, field) for run in runs]
            largest = max((value for value in values if value is not None), default=0)
            spent = sum(largest if value is None else value for value in values)
            left[budget] = max(least, left[budget] - spent)
    return left
