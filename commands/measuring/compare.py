"""`compare`: the same questions by several methods, to see whether reflection is worth its cost."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from commands import options
from commands.measuring.plans import (
    BOUNDS,
    EVALUATION_OUT,
    Fields,
    Forecast,
    PlannedCalls,
    judge_tokens,
    read_lines,
    tokens_of,
)
from commands.measuring.replay import readable_kind
from commands.options import checked
from commands.session import Exit, fail
from reflection.batch.request import BatchRequest
from reflection.critique.request import ReflectOnResultRequest
from reflection.run import Record
from reflection.sampling.answers import read_answer
from reflection.sampling.prompts import build_prompt
from reflection.sampling.request import AnswerKind, SelfConsistencyRequest

HELP = {
    "compare": """
FILE has one JSON object a line: {"question": "...", "gold": "42"}. An answer that reads
as gold is right: drafts are asked to end with a line "Answer: ".

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
}

FORM = '{"question": "What is 6 times 7?", "gold": "42"}'
METHODS = "single,reflect,self_consistency"
# Of one call; other questions may take far less or more.
DRAFT_OUT, SAMPLE_OUT = 500, 300
ASSUMED = (
    f"{DRAFT_OUT} out for a draft, {EVALUATION_OUT} for an evaluation and {SAMPLE_OUT} for a "
    "sampled answer, and as many of them as there may be"
)
REFLECTION = "Reflection and its judge"


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
        questions=read_lines(file, partial(read_question, kind), FORM, exact=True),
    )
    request = plan.request({name: fields[name] for name in BOUNDS})
    from commands.measuring.batches import Order, measure
    from commands.measuring.comparison import findings

    measure(
        Order(
            "compare", file, request, plan.forecast(), workflow_id, estimate, yes, detach, as_json
        ),
        partial(findings, plan),
    )


class Question(Record):
    """A question, and its right answer in the form that votes."""

    question: str
    gold: str

    @property
    def query(self) -> str:
        """The query for a draft, which asks for a marked answer."""
        return f'{self.question}\n\nEnd with one line "Answer: " that has the final answer alone.'


def read_question(kind: AnswerKind, fields: Fields) -> Question:
    """Read a question and its gold. Raises ValueError."""
    found = Question.model_validate(fields)
    SelfConsistencyRequest(question=found.question)
    form = read_answer(kind, found.gold)
    if form is None:
        raise ValueError(f"gold can't be read as {kind}")
    return Question(question=found.question, gold=form)


class MethodPlan(NamedTuple):
    """The questions and the methods; both requests are those of each run, without its texts."""

    methods: Sequence[str]
    reflecting: ReflectOnResultRequest
    sampling: SelfConsistencyRequest
    questions: Sequence[Question]

    def request(self, bounds: Mapping[str, Any]) -> BatchRequest:
        """Build the batch's request, or exit with code 2."""
        items = [{"question": one.question, "query": one.query} for one in self.questions]
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

    def forecast(self) -> Forecast:
        """Count the calls of each method and their tokens, at their maximum."""
        parts = [part for method in self.methods for part in self._calls(method)]
        return Forecast(parts, ASSUMED)

    def _calls(self, method: str) -> list[PlannedCalls]:
        count, model = len(self.questions), self.reflecting.model
        asked = tokens_of(one.query for one in self.questions)
        if method == "single":
            return [PlannedCalls(method, model, count, asked, count * DRAFT_OUT)]
        if method == "self_consistency":
            most, kind = self.sampling.max_responses, self.sampling.answers
            prompts = (build_prompt(one.question, None, kind) for one in self.questions)
            calls, asked = most * count, most * tokens_of(prompts)
            return [PlannedCalls(method, model, calls, asked, calls * SAMPLE_OUT)]
        revisions = self.reflecting.max_revisions
        drafts = count * (1 + revisions)
        # A revision is shown the draft and the feedback on it.
        asked = asked * (1 + revisions) + count * revisions * (DRAFT_OUT + EVALUATION_OUT)
        judging = sum(judge_tokens(self.reflecting, one.question, "") for one in self.questions)
        judged = drafts * (judging // count + DRAFT_OUT)
        return [
            PlannedCalls("reflect, writing", model, drafts, asked, drafts * DRAFT_OUT),
            *(
                PlannedCalls("reflect, judging", judge, drafts, judged, drafts * EVALUATION_OUT)
                for judge in self.reflecting.panel_judges
            ),
        ]


def _given(request: ReflectOnResultRequest | SelfConsistencyRequest, *less: str) -> dict[str, Any]:
    """Dump the fields of a request that were set, without those in `less`."""
    return request.model_dump(mode="json", exclude_unset=True, exclude=set(less))
