"""From labelled drafts to evaluations: what is to be judged by whom, in which order of criteria."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from commands.inputs import checked
from commands.measuring.batches.reading import Read
from commands.measuring.batches.spend import Calls, tokens_of
from commands.session import Exit, fail
from reflection.batch.request import BatchRequest
from reflection.critique.calibration.records import Example, Scored
from reflection.critique.criteria import PRESETS, CriteriaPreset, Criterion
from reflection.critique.evaluation import Evaluation
from reflection.critique.judging.prompt import build_judge_prompt
from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.result import ReflectOnResultResult

# Of one evaluation: scores, and three or four pieces of feedback.
TOKENS_OUT = 350
REVERSED = "reversed"


class Plan(NamedTuple):
    """Who judges what: each judge every example, `repeats` times, and once in reverse order."""

    examples: Sequence[Example]
    judges: Sequence[str]
    criteria: CriteriaPreset
    repeats: int
    reversed: bool
    guardrails: bool

    @property
    def judged_by(self) -> tuple[Criterion, ...]:
        """The criteria, in the order in which the loop lists them."""
        return PRESETS[self.criteria]

    @property
    def turned(self) -> bool:
        """Whether each example is judged in reverse order too: one criterion has no order."""
        return self.reversed and len(self.judged_by) > 1

    def request(self, bounds: dict[str, Any]) -> BatchRequest:
        """Make the batch of it; what does not fit is one line and exit code 2."""
        items = [{"query": each.query, "draft": each.draft} for each in self.examples]
        fields = {"items": items, "variants": list(self._variants()), **bounds}
        request: BatchRequest = checked(BatchRequest, fields)
        return request

    def estimate(self) -> list[Calls]:
        """Count the calls of each judge and their tokens, by the very prompts."""
        times = self.repeats + self.turned
        sizes = [tokens_of(self._prompt(each)) for each in self.examples]
        calls = times * len(sizes)
        return [
            Calls("evaluating", judge, calls, times * sum(sizes), calls * TOKENS_OUT)
            for judge in self.judges
        ]

    def _prompt(self, example: Example) -> str:
        threshold: float = ReflectOnResultRequest.model_fields["score_threshold"].default
        return build_judge_prompt(example.query, example.draft, self.judged_by, threshold)

    def _variants(self) -> Iterator[dict[str, Any]]:
        for place, judge in enumerate(self.judges):
            name = f"judge-{place + 1}"
            yield self._variant(name, judge, {"criteria": self.criteria}, self.repeats)
            if self.turned:
                back = [each.model_dump(mode="json") for each in reversed(self.judged_by)]
                yield self._variant(f"{name}-{REVERSED}", judge, {"criteria": back}, 1)

    def _variant(
        self, name: str, judge: str, criteria: dict[str, Any], repeats: int
    ) -> dict[str, Any]:
        # One judge, no revision, and no query too simple: the loop's own evaluation alone.
        alone = {"judges": [judge], "max_revisions": 0, "complexity": 1.0}
        guardrails: dict[str, Any] = {} if self.guardrails else {"guardrails": []}
        return {
            "name": name,
            "workflow": "ReflectOnResultWorkflow",
            "request": {**alone, **criteria, **guardrails},
            "takes": {"query": "query", "draft": "draft"},
            "repeats": repeats,
        }


def preset(name: str) -> CriteriaPreset:
    """Find a preset by its name; another word ends with exit code 2."""
    found = next((each for each in PRESETS if each == name), None)
    if found is None:
        fail(f"--criteria: one of {', '.join(PRESETS)}.", Exit.USAGE)
    return found


class Evaluated(NamedTuple):
    """One evaluation that was made, and what there is besides its score."""

    scored: Scored
    workflow_id: str
    judged: float | None
    guardrails: tuple[str, ...]
    error: str | None


def evaluated(plan: Plan, reads: Sequence[Read]) -> list[Evaluated]:
    """List the evaluations that were made; those not started, or cancelled, are none."""
    made = [each for each in reads if each.run.status in {"completed", "failed"}]
    return [_evaluated(plan, each) for each in made]


def _evaluated(plan: Plan, read: Read) -> Evaluated:
    run, evaluation = read.run, _evaluation(read.result)
    place = int(run.variant.split("-")[1]) - 1
    scored = Scored(
        example=run.item,
        judge=plan.judges[place],
        repeat=run.repeat,
        reversed=run.variant.endswith(REVERSED),
        score=evaluation.score,
        scores=evaluation.criteria,
        tokens=run.tokens,
        cost_usd=run.cost_usd,
    )
    error = evaluation.error or run.error
    fired = tuple(each.guardrail for each in evaluation.guardrails)
    return Evaluated(scored, run.workflow_id, evaluation.judged, fired, error)


def _evaluation(result: ReflectOnResultResult | None) -> Evaluation:
    drafts = result.drafts if result else ()
    return drafts[0].evaluation or Evaluation() if drafts else Evaluation()
