"""Methods side by side: which runs are made of each question, and which answers they give."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from temporalio.client import Client

from commands.measuring.batches import Order, Read, made, request_of
from commands.measuring.files import Fields, LineError, read_lines, text_of
from commands.measuring.judges import judge_prompt, judging
from commands.measuring.spend import Calls, Forecast, tokens_of
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchResult
from reflection.critique.criteria import CriteriaPreset
from reflection.critique.result import ReflectOnResultResult
from reflection.run import encoded_size, explain
from reflection.sampling.answers import read_answer
from reflection.sampling.marks import find_marked
from reflection.sampling.prompts import build_prompt
from reflection.sampling.request import AnswerKind, SelfConsistencyRequest
from reflection.sampling.result import SelfConsistencyResult

FORM = '{"question": "What is 6 times 7?", "gold": "42"}'
MARKED = '\n\nEnd with one line "Answer: " that has the final answer alone.'
# Of one call; a question of one's own may take far less or more.
DRAFT_OUT, EVALUATION_OUT, SAMPLE_OUT = 500, 350, 300
ASSUMED = (
    f"{DRAFT_OUT} out for a draft, {EVALUATION_OUT} for an evaluation and {SAMPLE_OUT} for a "
    "sampled answer, and as many of them as there may be"
)
# A batch takes 1 MB of items and 2,000 runs; what is more is scored in several, one after another.
CHUNK_BYTES = 900_000
CHUNK_RUNS = 2_000

Scores = Mapping[tuple[int, str], float | None]


class Question(NamedTuple):
    """A question, and the form under which a right answer votes, None where nobody knows it."""

    question: str
    gold: str | None


def read_questions(file: Path, kind: AnswerKind) -> list[Question]:
    """Read every question of a file, or end with exit code 2 and the line that is wrong."""
    return read_lines(file, partial(_question, kind), FORM)


def _question(kind: AnswerKind, fields: Fields) -> Question:
    question, gold = text_of(fields, "question"), fields.get("gold")
    try:
        SelfConsistencyRequest(question=question)
    except ValidationError as error:
        raise LineError(explain(error)) from None
    if gold is None:
        return Question(question, None)
    if isinstance(gold, bool) or not isinstance(gold, str | int | float):
        raise LineError('"gold" is neither text, nor a number, nor null')
    form = read_answer(kind, str(gold))
    if form is None:
        raise LineError(f'"gold" can\'t be read as {kind}')
    return Question(question, form)


class Plan(NamedTuple):
    """Which questions by which methods, all with one seed; None is a workflow's own default."""

    questions: Sequence[Question]
    methods: Sequence[str]
    model: str | None
    judges: Sequence[str]
    answers: AnswerKind
    criteria: CriteriaPreset
    max_revisions: int
    max_responses: int | None
    score_threshold: float | None
    guardrails: bool
    seed: int

    @property
    def has_gold(self) -> bool:
        """True where a right answer is known; else a judge scores what the methods give."""
        return any(one.gold is not None for one in self.questions)

    @property
    def queries(self) -> list[str]:
        """What a draft is asked for: with its answer marked, where that is looked at."""
        return [one.question + MARKED * self.has_gold for one in self.questions]

    def judged(self) -> dict[str, Any]:
        """Make the fields of a request by which it is judged."""
        return judging(self.judges, self.criteria, guardrails=self.guardrails)

    def request(self, bounds: Mapping[str, Any]) -> BatchRequest:
        """Make the batch of it; what does not fit is one line and exit code 2."""
        pairs = zip(self.questions, self.queries, strict=True)
        items = [{"question": one.question, "query": query} for one, query in pairs]
        return request_of(items, [self._variant(method) for method in self.methods], bounds)

    def _variant(self, method: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": self.model, "seed": self.seed}
        workflow, takes = "ReflectOnResultWorkflow", {"query": "query"}
        if method == "self_consistency":
            fields |= {"answers": self.answers, "max_responses": self.max_responses}
            workflow, takes = "SelfConsistencyWorkflow", {"question": "question"}
        elif method == "reflect":
            bound = {"score_threshold": self.score_threshold, "max_revisions": self.max_revisions}
            fields |= self.judged() | bound
        else:
            fields["reflect"] = False
        given = {name: value for name, value in fields.items() if value is not None}
        return {"name": method, "workflow": workflow, "request": given, "takes": takes}

    def forecast(self) -> Forecast:
        """Count the calls of each method and their tokens, if every call is made that may be."""
        parts = [part for method in self.methods for part in self._calls(method)]
        if not self.has_gold:
            parts += self._judging("scoring", len(self.questions) * len(self.methods))
        return Forecast(parts, ASSUMED)

    def _calls(self, method: str) -> list[Calls]:
        count, asked = len(self.questions), tokens_of(self.queries)
        if method == "single":
            return [Calls(method, self.model, count, asked, count * DRAFT_OUT)]
        if method == "self_consistency":
            default: int = SelfConsistencyRequest.model_fields["max_responses"].default
            most = self.max_responses or default
            prompts = (build_prompt(one.question, None, self.answers) for one in self.questions)
            calls, asked = most * count, most * tokens_of(prompts)
            return [Calls(method, self.model, calls, asked, calls * SAMPLE_OUT)]
        drafts = count * (1 + self.max_revisions)
        # A revision is shown the draft and the feedback on it.
        more = count * self.max_revisions * (DRAFT_OUT + EVALUATION_OUT)
        asked = asked * (1 + self.max_revisions) + more
        writing = Calls("reflect, writing", self.model, drafts, asked, drafts * DRAFT_OUT)
        return [writing, *self._judging("reflect, judging", drafts)]

    def _judging(self, what: str, drafts: int) -> list[Calls]:
        prompts = (judge_prompt(one.question, "", self.criteria) for one in self.questions)
        asked = drafts * (tokens_of(prompts) // len(self.questions) + DRAFT_OUT)
        judges: list[str | None] = list(self.judges) or [None]
        return [Calls(what, judge, drafts, asked, drafts * EVALUATION_OUT) for judge in judges]


class Answered(NamedTuple):
    """One method's answer to one question; `text` is whole, `answer` the form that is compared."""

    read: Read
    text: str | None
    answer: str | None
    revisions: int | None

    @property
    def failed(self) -> bool:
        """True where there is no answer at all."""
        return self.text is None


def answered(plan: Plan, reads: Sequence[Read]) -> list[Answered]:
    """List the answers of all runs that were made.

    Those not started, or cancelled, have none, and those whose result is not kept any more are not
    known to have had one.
    """
    made = [read for read in reads if read.result is not None or read.run.status == "failed"]
    return [_answered(plan, read) for read in made]


def _answered(plan: Plan, read: Read) -> Answered:
    result: SelfConsistencyResult | ReflectOnResultResult | None = read.result
    if result is None:
        return Answered(read, None, None, None)
    if isinstance(result, SelfConsistencyResult):
        final = result.final_answer
        return Answered(read, final, read_answer(plan.answers, final), None)
    marked = find_marked(result.draft or "") if plan.has_gold else None
    form = read_answer(plan.answers, marked.answer) if marked else None
    return Answered(read, result.draft, form, result.revisions)


async def score(
    client: Client,
    order: Order,
    plan: Plan,
    answers: Sequence[Answered],
    bounds: Mapping[str, Any],
    spent: BatchResult,
) -> tuple[Scores, list[BatchResult]]:
    """Where no right answer is known, let the same judge score all, with what budgets leave.

    Returns scores by question and method, None where one failed, and the batches they come from.
    """
    variant = {
        "name": "scoring",
        "workflow": "ReflectOnResultWorkflow",
        "request": plan.judged() | {"max_revisions": 0},
        "takes": {"query": "query", "draft": "draft"},
    }
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
        second = order._replace(
            identity=f"{order.identity}-scores" + (f"-{number}" if number > 1 else ""),
            request=request_of([item for item, _ in chunk], [variant], remaining(bounds, batches)),
            summary=f"{order.summary}, scored",
            agreed=lambda: True,
        )
        batch, reads = await made(client, second)
        batches.append(batch)
        found |= {chunk[read.run.item][1]: read.result.score for read in reads if read.result}
    return found, batches[1:]


def remaining(bounds: Mapping[str, Any], batches: Sequence[BatchResult]) -> dict[str, Any]:
    """Return what batches leave of budgets; what is unknown counts as the largest that is known."""
    runs = [run for batch in batches for run in batch.runs if run.status != "not_started"]
    left = dict(bounds)
    for budget, field, least in (("budget_tokens", "tokens", 1), ("budget_usd", "cost_usd", 1e-9)):
        if left[budget] is not None:
            values = [getattr(run, field) for run in runs]
            largest = max((value for value in values if value is not None), default=0)
            spent = sum(largest if value is None else value for value in values)
            left[budget] = max(least, left[budget] - spent)
    return left
