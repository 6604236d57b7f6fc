"""From questions to runs: each question by each method, all with the same seed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from commands.inputs import checked
from commands.measuring.batches.spend import Calls, tokens_of
from commands.measuring.methods.questions import Question
from reflection.batch.request import BatchRequest
from reflection.convergence.request import AnswerKind, SelfConsistencyRequest
from reflection.critique.criteria import PRESETS, CriteriaPreset
from reflection.critique.judging.prompt import build_judge_prompt
from reflection.critique.request import ReflectOnResultRequest
from reflection.sampling.prompts import build_prompt

METHODS = ("single", "reflect", "self_consistency")
MARKED = '\n\nEnd with one line "Answer: " that has the final answer alone.'
SCORING = "scoring"

# Of one call; a question of one's own may take far less or more.
DRAFT_OUT, EVALUATION_OUT, SAMPLE_OUT = 500, 350, 300
ASSUMED = (
    f"{DRAFT_OUT} out for a draft, {EVALUATION_OUT} for an evaluation and {SAMPLE_OUT} for a "
    "sampled answer, and as many of them as there may be"
)


class Plan(NamedTuple):
    """Which questions by which methods; None stands for a workflow's own default."""

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
        """Whether a right answer is known; else a judge scores what the methods give."""
        return any(each.gold is not None for each in self.questions)

    def query(self, question: str) -> str:
        """Return what a draft is asked for: with its answer marked, where that is looked at."""
        return question + MARKED if self.has_gold else question

    def request(self, bounds: dict[str, Any]) -> BatchRequest:
        """Make the batch of it; what does not fit is one line and exit code 2."""
        items = [
            {"question": each.question, "query": self.query(each.question)}
            for each in self.questions
        ]
        variants = [self._variant(each) for each in self.methods]
        request: BatchRequest = checked(
            BatchRequest, {"items": items, "variants": variants, **bounds}
        )
        return request

    def scoring(self, answers: Sequence[tuple[int, str]], bounds: dict[str, Any]) -> BatchRequest:
        """Make the batch that scores answers, each to the question at its place."""
        items = [self.scored(place, text) for place, text in answers]
        fields = self._judged() | {"max_revisions": 0}
        variant = {
            "name": SCORING,
            "workflow": "ReflectOnResultWorkflow",
            "request": fields,
            "takes": {"query": "query", "draft": "draft"},
        }
        request: BatchRequest = checked(
            BatchRequest, {"items": items, "variants": [variant], **bounds}
        )
        return request

    def scored(self, place: int, text: str) -> dict[str, str]:
        """Make the item by which an answer to the question at this place is scored."""
        return {"query": self.questions[place].question, "draft": text}

    def _variant(self, method: str) -> dict[str, Any]:
        common = _given({"model": self.model, "seed": self.seed})
        if method == "self_consistency":
            own = _given({"answers": self.answers, "max_responses": self.max_responses})
            workflow, takes = "SelfConsistencyWorkflow", {"question": "question"}
        else:
            threshold = _given({"score_threshold": self.score_threshold})
            reflecting = self._judged() | threshold | {"max_revisions": self.max_revisions}
            own = reflecting if method == "reflect" else {"reflect": False}
            workflow, takes = "ReflectOnResultWorkflow", {"query": "query"}
        return {"name": method, "workflow": workflow, "request": common | own, "takes": takes}

    def _judged(self) -> dict[str, Any]:
        # A question that is too simple to be reflected on is compared all the same.
        guardrails: dict[str, Any] = {} if self.guardrails else {"guardrails": []}
        return {
            "judges": list(self.judges),
            "criteria": self.criteria,
            "complexity": 1.0,
            **guardrails,
        }

    def estimate(self) -> list[Calls]:
        """Count the calls of each method and their tokens, if every call is made that may be."""
        known = {
            "single": self._single,
            "reflect": self._reflect,
            "self_consistency": self._sampled,
        }
        parts = [part for method in self.methods for part in known[method]()]
        answers = len(self.questions) * len(self.methods)
        return parts if self.has_gold else [*parts, *self._judging("scoring", answers)]

    def _single(self) -> list[Calls]:
        count = len(self.questions)
        return [Calls("single", self.model, count, self._asked(), count * DRAFT_OUT)]

    def _reflect(self) -> list[Calls]:
        count, revisions = len(self.questions), self.max_revisions
        drafts = count * (1 + revisions)
        # A revision is shown the draft and the feedback on it.
        more = count * revisions * (DRAFT_OUT + EVALUATION_OUT)
        tokens_in = self._asked() * (1 + revisions) + more
        writing = Calls("reflect, writing", self.model, drafts, tokens_in, drafts * DRAFT_OUT)
        return [writing, *self._judging("reflect, judging", drafts)]

    def _sampled(self) -> list[Calls]:
        default: int = SelfConsistencyRequest.model_fields["max_responses"].default
        most = self.max_responses or default
        asked = sum(
            tokens_of(build_prompt(each.question, None, self.answers)) for each in self.questions
        )
        calls = most * len(self.questions)
        return [Calls("self_consistency", self.model, calls, most * asked, calls * SAMPLE_OUT)]

    def _judging(self, what: str, drafts: int) -> list[Calls]:
        threshold: float = ReflectOnResultRequest.model_fields["score_threshold"].default
        prompts = [
            build_judge_prompt(each.question, "", PRESETS[self.criteria], threshold)
            for each in self.questions
        ]
        size = sum(map(tokens_of, prompts)) // len(prompts) + DRAFT_OUT
        judges: list[str | None] = list(self.judges) or [None]
        return [
            Calls(what, judge, drafts, drafts * size, drafts * EVALUATION_OUT) for judge in judges
        ]

    def _asked(self) -> int:
        return sum(tokens_of(self.query(each.question)) for each in self.questions)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
