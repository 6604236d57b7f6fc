"""The request of a reflection run."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    FailFast,
    Field,
    StringConstraints,
    TypeAdapter,
    field_validator,
    model_validator,
)

from mull.critique.criteria import PRESETS, CriteriaPreset, Criterion
from mull.critique.evaluation import Panel, Score
from mull.critique.guardrails import DEFAULT
from mull.drafts import PERSONS_REVISIONS
from mull.option import model_option, option, review_option
from mull.request import (
    DRAFT_BYTES,
    THINKING_TOKENS,
    Bounded,
    Framing,
    ModelName,
    Words,
    output_limit,
    time_out,
)
from mull.text import encoded_size, within

Format = Literal["json", "python", "markdown"]

QUERY_BYTES = 100_000
SOURCES_BYTES = 200_000
# A result holds every draft and repeats the best, and must fit a 2 MiB payload.
DRAFTS_BYTES = 650_000
HISTORY_BYTES = 20_000_000

GuardrailName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
OWN_CRITERIA = TypeAdapter(tuple[Criterion, ...])
MOST_CRITERIA = 10

draft_option, judge_option = (
    partial(option, "Draft"),
    partial(option, "Judges and criteria"),
)
revise_option = partial(option, "When to revise")
reflect_option = partial(option, "Whether to reflect")


class ReflectOnResultRequest(Bounded, Framing):
    """A query, its writer, judges and criteria, and everything that bounds the run.

    Scores, thresholds and complexities are 0 to 1.
    Source: Shannon's reflection chapter; its defaults.
    """

    subject_field = "query"
    # Each judge reads a draft, which is usually no longer.
    result_bytes = 20_000

    query: Annotated[Words, AfterValidator(partial(within, most=QUERY_BYTES))]
    draft: str | None = Field(
        default=None, description="A draft to judge in place of a generated one."
    )
    judges: Annotated[tuple[ModelName, ...], FailFast()] = judge_option(
        (),
        "The model that judges; repeat it for a panel. The worker's judge by default.",
        "models",
        common=True,
        variable="MULL_JUDGE_MODEL",
        max_length=5,
        flag="--judge",
    )
    panel: Panel = judge_option("mean", "How the scores of several judges become one.")
    criteria: CriteriaPreset | Annotated[tuple[Criterion, ...], Field(max_length=MOST_CRITERIA)] = (
        judge_option("general", "A preset, or a list of your own criteria.", common=True)
    )
    score_threshold: Score = revise_option(
        0.7,
        "A draft with at least this score is not revised.",
        common=True,
        also="--confidence-threshold",
        validation_alias=AliasChoices("score_threshold", "confidence_threshold"),
    )
    max_revisions: int = revise_option(
        1, "Revisions after the first draft; in `agent` it counts drafts.", common=True, ge=0, le=10
    )
    min_gain: Score = revise_option(0.02, "Stop when two evaluations in a row gain less than this.")
    guardrails: Annotated[tuple[GuardrailName, ...], FailFast()] = Field(
        default=(DEFAULT,),
        max_length=50,
        description="Names; `default` for those that run by default.",
    )
    format: Format | None = draft_option(None, "The format that the draft must parse as.")
    sources: Annotated[tuple[Words, ...], FailFast()] = draft_option(
        (),
        "A text to cite as [1], [2] and so on; can be repeated.",
        "texts",
        flag="--source",
        max_length=50,
    )
    reflect: bool = reflect_option(True, "Off: one draft, neither judged nor revised.")
    synthesis_follows: bool = reflect_option(
        False, "A later step rewrites the result, so it is not revised here."
    )
    min_complexity: Score = reflect_option(
        0.5, "Reflect only on queries that are more complex; 0 for all."
    )
    complexity: Score | None = reflect_option(
        None, "The query's complexity; estimated from its words by default."
    )
    temperature: float = model_option(0.7, "Temperature.", ge=0, le=2, allow_inf_nan=False)
    seed: int | None = model_option(
        None, "The writer's seed, if the model takes one.", ge=0, le=2**31
    )
    max_output_tokens: int | None = output_limit("draft", 4_096, model_option, common=True)
    judge_max_output_tokens: int | None = output_limit("judgement", 4_096, judge_option)
    call_timeout_seconds: float | None = time_out("call")
    review_below: Score | None = review_option(
        None, "A result with a score below it waits for a person."
    )

    @property
    def shown(self) -> list[str]:
        """The texts whose size is bounded together: with the query and the sources."""
        return [self.query, *self.sources, *super().shown]

    @property
    def judged_by(self) -> tuple[Criterion, ...]:
        """The criteria, with a preset resolved."""
        return PRESETS[self.criteria] if isinstance(self.criteria, str) else self.criteria

    @property
    def criteria_name(self) -> str:
        """The preset's name, or `own`."""
        return self.criteria if isinstance(self.criteria, str) else "own"

    @property
    def panel_judges(self) -> tuple[str | None, ...]:
        """The judges; a single None is the worker's own judge."""
        return self.judges or (None,)

    def most_calls(self) -> Iterator[tuple[str | None, int]]:
        """Yield the models of a run, each with the most calls of it."""
        drafts = 1 + self.max_revisions if self.reflect else 1
        yield self.model, drafts
        for judge in self.panel_judges if self.reflect else ():
            yield judge, drafts

    @property
    def draft_bytes(self) -> int:
        """The size in bytes to which a draft is cut, so that the longest run's result fits."""
        return min(DRAFT_BYTES, DRAFTS_BYTES // (self.max_revisions + 2 + PERSONS_REVISIONS))

    @field_validator("criteria", mode="before")
    @classmethod
    def _criteria(cls, given: Any) -> Any:
        """Read a preset's name or a list; telling them apart first gives a clear error."""
        if isinstance(given, list | tuple):
            if not 1 <= len(given) <= MOST_CRITERIA:
                raise ValueError(f"give 1 to {MOST_CRITERIA} criteria, or the name of a preset")
            return OWN_CRITERIA.validate_python(given)
        if not isinstance(given, str) or given not in PRESETS:
            raise ValueError(f"unknown preset; choose one of {', '.join(PRESETS)}")
        return given

    @field_validator("sources")
    @classmethod
    def _small_sources(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        within("".join(sources), SOURCES_BYTES)
        return sources

    @field_validator("draft")
    @classmethod
    def _some_draft(cls, draft: str | None) -> str | None:
        if draft is not None and not draft.strip():
            raise ValueError("must not be empty")
        return draft

    @model_validator(mode="before")
    @classmethod
    def _one_threshold(cls, data: Any) -> Any:
        if isinstance(data, dict) and {"score_threshold", "confidence_threshold"} <= set(data):
            raise ValueError("give score_threshold or confidence_threshold, not both")
        # After this validator pydantic's strict mode takes tuples only, and JSON has lists.
        fields = data.items() if isinstance(data, dict) else ()
        return {name: tuple(x) if isinstance(x, list) else x for name, x in fields} or data

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        size = encoded_size(self.draft or "")
        if size > self.draft_bytes:
            raise ValueError(f"draft: {size:,} bytes exceed the limit of {self.draft_bytes:,}")
        names = [criterion.name for criterion in self.judged_by]
        if len(set(names)) < len(names):
            raise ValueError("two criteria have the same name")
        if len(set(self.judges)) < len(self.judges):
            raise ValueError("two judges are the same model")
        size = self._history_bytes
        if size > HISTORY_BYTES:
            raise ValueError(
                f"query, sources, context and drafts would take up to {size:,} bytes of history,"
                f" more than the limit of {HISTORY_BYTES:,}: shorten them, or use fewer judges or"
                " revisions"
            )
        return self

    @property
    def _history_bytes(self) -> int:
        """The size of all calls, if each judge is asked twice and each draft is of full length."""
        draft = min(self.draft_bytes, 8 * (self.max_output_tokens or THINKING_TOKENS))
        calls = 2 * len(self.panel_judges) + 2
        return (self.shown_bytes + draft) * calls * (self.max_revisions + 1 + PERSONS_REVISIONS)
