"""What a run of reflection is asked for."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    Field,
    StringConstraints,
    TypeAdapter,
    field_validator,
    model_validator,
)

from reflection.critique.criteria import PRESETS, CriteriaPreset, Criterion
from reflection.critique.evaluation import Panel, Score
from reflection.critique.guardrails import DEFAULT
from reflection.run import Request, encoded_size

Format = Literal["json", "python", "markdown"]

QUERY_BYTES = 100_000
SOURCES_BYTES = 200_000
DRAFT_BYTES = 100_000
# A result repeats the best draft, holds every one, and must fit a payload of 2 MiB.
DRAFTS_BYTES = 650_000
HISTORY_BYTES = 20_000_000
PERSONS_REVISIONS = 5

Seconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]
GuardrailName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
OWN_CRITERIA = TypeAdapter(tuple[Criterion, ...])
MOST_CRITERIA = 10


class ReflectOnResultRequest(Request):
    """A query, who answers it, who judges it by what, and everything that bounds the run.

    `draft` is judged in the place of a generated one. `judges` is a panel where there are several;
    none: the worker's own judge. `criteria` is a preset or a list of one's own. Scores and
    thresholds are 0 to 1. `max_revisions` counts regenerations. `min_gain`: two evaluations in a
    row that gain less end the run. `guardrails` are names; `default` stands for all that Mull has.
    `sources` are texts that the draft may cite as [1], [2] and so on.

    `reflect`, `synthesis_follows`, `min_complexity` and `complexity` (0 to 1, estimated where it
    is not given) say whether to reflect at all. Budgets bound tokens in and out together, US
    dollars, and seconds from the start without the time spent waiting for a person.
    `max_output_tokens` bounds a draft, `judge_max_output_tokens` a judgement with all that a model
    thinks before it, `call_timeout_seconds` one call, and `max_attempts` how often a call that
    fails in passing is made. A result whose score ends below `review_below` waits for a person,
    for at most `review_timeout_seconds`.
    Source: Shannon's reflection chapter; its defaults.
    """

    query: Words
    draft: str | None = None
    model: ModelName | None = None
    judges: tuple[ModelName, ...] = Field((), max_length=5)
    panel: Panel = "mean"
    criteria: CriteriaPreset | tuple[Criterion, ...] = "general"
    score_threshold: Score = Field(
        0.7, validation_alias=AliasChoices("score_threshold", "confidence_threshold")
    )
    max_revisions: int = Field(1, ge=0, le=10)
    min_gain: Score = 0.02
    guardrails: tuple[GuardrailName, ...] = Field((DEFAULT,), max_length=50)
    format: Format | None = None
    sources: tuple[Words, ...] = Field((), max_length=50)
    reflect: bool = True
    synthesis_follows: bool = False
    min_complexity: Score = 0.5
    complexity: Score | None = None
    temperature: float = Field(0.7, ge=0, le=2, allow_inf_nan=False)
    seed: int | None = Field(None, ge=0, le=2**31)
    max_output_tokens: int = Field(4096, ge=1, le=32_768)
    judge_max_output_tokens: int = Field(4096, ge=1, le=32_768)
    budget_tokens: int | None = Field(None, ge=1)
    budget_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    budget_seconds: Seconds | None = None
    call_timeout_seconds: float = Field(120, ge=1, le=3_600, allow_inf_nan=False)
    max_attempts: int = Field(5, ge=1, le=100)
    review_below: Score | None = None
    review_timeout_seconds: Seconds | None = None

    @property
    def judged_by(self) -> tuple[Criterion, ...]:
        """The criteria themselves."""
        return PRESETS[self.criteria] if isinstance(self.criteria, str) else self.criteria

    @property
    def criteria_name(self) -> str:
        """The preset's name, or `own`."""
        return self.criteria if isinstance(self.criteria, str) else "own"

    @property
    def panel_judges(self) -> tuple[str | None, ...]:
        """Who judges: None alone is the worker's own judge."""
        return self.judges or (None,)

    @property
    def draft_bytes(self) -> int:
        """The size to which a draft is cut, so that the longest run's result can be kept."""
        return min(DRAFT_BYTES, DRAFTS_BYTES // (self.max_revisions + 2 + PERSONS_REVISIONS))

    @field_validator("criteria", mode="before")
    @classmethod
    def _criteria(cls, given: Any) -> Any:
        """Read a preset's name, or a list: told apart first, an error names what is wrong."""
        if isinstance(given, list | tuple):
            if not 1 <= len(given) <= MOST_CRITERIA:
                raise ValueError(f"give 1 to {MOST_CRITERIA} of them, or a preset's name")
            return OWN_CRITERIA.validate_python(given)
        if not isinstance(given, str) or given not in PRESETS:
            raise ValueError(f"no such preset; there are {', '.join(PRESETS)}")
        return given

    @field_validator("query")
    @classmethod
    def _small_query(cls, query: str) -> str:
        return _within(query, QUERY_BYTES)

    @field_validator("sources")
    @classmethod
    def _small_sources(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        _within("".join(sources), SOURCES_BYTES)
        return sources

    @field_validator("draft")
    @classmethod
    def _some_draft(cls, draft: str | None) -> str | None:
        if draft is not None and not draft.strip():
            raise ValueError("there is nothing in it")
        return draft

    @model_validator(mode="before")
    @classmethod
    def _one_threshold(cls, data: Any) -> Any:
        if isinstance(data, dict) and {"score_threshold", "confidence_threshold"} <= set(data):
            raise ValueError("give score_threshold or confidence_threshold, not both")
        return data

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        size = encoded_size(self.draft or "")
        if size > self.draft_bytes:
            raise ValueError(f"draft: {size:,} bytes, and at most {self.draft_bytes:,} are taken")
        names = [each.name for each in self.judged_by]
        if len(set(names)) < len(names):
            raise ValueError("two criteria have the same name")
        if len(set(self.judges)) < len(self.judges):
            raise ValueError("two judges are the same model")
        size = self._history_bytes
        if size > HISTORY_BYTES:
            raise ValueError(
                f"query, sources and drafts would take up to {size:,} bytes of history, and at most"
                f" {HISTORY_BYTES:,} are taken: give shorter ones, fewer judges or revisions"
            )
        return self

    @property
    def _history_bytes(self) -> int:
        """What all calls carry, if each judge is asked twice and each draft is a long one."""
        asked = encoded_size(self.query) + sum(encoded_size(each) for each in self.sources)
        draft = min(self.draft_bytes, 8 * self.max_output_tokens)
        calls = 2 * len(self.panel_judges) + 2
        return (asked + draft) * calls * (self.max_revisions + 1 + PERSONS_REVISIONS)


def _within(text: str, most: int) -> str:
    size = encoded_size(text)
    if size > most:
        raise ValueError(f"{size:,} bytes, and at most {most:,} are taken")
    return text
