"""When to stop: the settings of every stopping rule, their defaults and presets."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from reflection.request import Request

Rule = Literal[
    "combined",
    "confidence_only",
    "entropy_only",
    "off",
    "predictive",
    "beta",
    "ahead_by",
    "fixed",
    "curtail",
]
StopReason = Literal[
    "rule",
    "decided",
    "max_responses",
    "no_consensus",
    "budget",
    "deadline",
    "finished_by_person",
    "accepted_by_person",
    "replaced_by_person",
    "review_timeout",
]
Preset = Literal["thrifty", "thorough"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

SOURCE_MODES: frozenset[Rule] = frozenset({"combined", "confidence_only", "entropy_only", "off"})
SOURCE_MIN_RESPONSES = 5
MAX_RESPONSES_CEILING = 1000

PRESETS: dict[str, dict[str, object]] = {
    "thrifty": {"rule": "predictive", "epsilon": 0.05, "max_responses": 10},
    "thorough": {"rule": "predictive", "epsilon": 0.02, "max_responses": 40},
}


class Stopping(Request):
    """What stops sampling.

    Shares, probabilities and thresholds are 0 to 1; counts are answers. Defaults of the source's
    modes are the source's. `min_responses` is 5 for the source's modes and 1 for the others,
    unless it is given. `preset` fills in what is not given.
    """

    preset: Preset | None = None
    rule: Rule = Field("combined", validation_alias=AliasChoices("rule", "entropy_mode"))
    confidence_threshold: Share = 0.8
    entropy_threshold: Share = 0.3
    entropy_weight: Share = 0.3
    min_responses: int = Field(SOURCE_MIN_RESPONSES, ge=1)
    min_entropy_samples: int = Field(4, ge=1)
    max_responses: int = Field(10, ge=1, le=MAX_RESPONSES_CEILING)
    epsilon: Share = 0.05
    beta_threshold: Share = 0.95
    ahead_by: int = Field(3, ge=1)
    futility: Share | None = None
    quorum: int = Field(1, ge=1)

    @property
    def curtailed(self) -> bool:
        """Whether the run ends once the runner-up can't catch up, which changes no answer."""
        return self.rule not in SOURCE_MODES and self.rule != "fixed"

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset")
        known = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        filled = {**_without_rule_twice(known, data), **data}
        if filled.get("min_responses") is None:
            filled["min_responses"] = _least(filled)
        return filled

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.min_responses > self.max_responses:
            raise ValueError(
                f"min_responses ({self.min_responses}) is above max_responses"
                f" ({self.max_responses})"
            )
        if self.quorum > self.max_responses:
            raise ValueError(
                f"quorum ({self.quorum}) is above max_responses ({self.max_responses})"
            )
        return self


def _without_rule_twice(preset: dict[str, object], data: dict[str, Any]) -> dict[str, object]:
    return {k: v for k, v in preset.items() if k != "rule"} if "entropy_mode" in data else preset


def _least(data: dict[str, Any]) -> int:
    rule = data.get("rule", data.get("entropy_mode", "combined"))
    if not isinstance(rule, str) or rule not in SOURCE_MODES:
        return 1
    try:
        most = int(data.get("max_responses", SOURCE_MIN_RESPONSES))
    except (TypeError, ValueError, OverflowError):
        return SOURCE_MIN_RESPONSES
    return min(max(most, 1), SOURCE_MIN_RESPONSES)
