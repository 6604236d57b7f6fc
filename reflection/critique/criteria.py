"""The criteria by which a draft is judged, their weights and presets.

To add a preset, in this file: its name in `CriteriaPreset`, its criteria in `MEANINGS`, and in
`WEIGHT_OF_TWO` those that weigh twice. A criterion that asks for length or for citations goes into
`ASKS_FOR_LENGTH` or `ASKS_FOR_CITATIONS`: these sets tell guardrails what a draft must have, by the
names of its criteria. A new set takes a guardrail that reads it. Then add a row to the table in
tests/unit/critique/test_criteria.py, and the name to the list in docs/guide.md.
"""

from math import fsum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from reflection.request import Frozen
from reflection.run import at_least

CriteriaPreset = Literal[
    "general",
    "cost_sensitive",
    "research",
    "code",
    "documentation",
    "support_reply",
    "competitive_analysis",
]


class Criterion(Frozen):
    """One thing that a draft is judged by.

    `name` is its key in the judge's reply, `weight` its relative weight in the overall score,
    above 0 and at most 100, and `meaning` the sentence that tells the judge what to look at.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    meaning: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
    weight: float = Field(1.0, strict=True, gt=0, le=100, allow_inf_nan=False)


GENERAL = {
    "completeness": (
        "It covers every part of what was asked, and leaves out nothing that matters."
    ),
    "correctness": "Its statements are true, and nothing in it contradicts itself.",
    "clarity": "It is easy to follow: ordered, precise, without filler or vague wording.",
}
MEANINGS: dict[CriteriaPreset, dict[str, str]] = {
    "general": GENERAL,
    "cost_sensitive": {name: GENERAL[name] for name in ("completeness", "correctness")},
    "research": {
        **GENERAL,
        "citation_coverage": "Every claim that needs support has a citation right at its place.",
        "source_quality": (
            "What it relies on is primary, current and independent, not hearsay or advertising."
        ),
    },
    "code": {
        "correctness": "The code does what was asked, and would run as it stands.",
        "efficiency": "Its use of time and memory is reasonable for the sizes to be expected.",
        "readability": "Names, structure and comments let another engineer follow it at once.",
        "edge_cases": (
            "Empty, huge, malformed and boundary inputs are handled, and errors are clear."
        ),
    },
    "documentation": {
        "accuracy": "Names, types, defaults, units and errors are those of the thing described.",
        "completeness": (
            "Every parameter, return value, error and limit that a caller meets is there."
        ),
        "examples": "Examples are complete, would work when copied, and show the common case.",
        "navigability": "A reader who looks for one fact finds it by headings, order and terms.",
    },
    "support_reply": {
        "resolution": "It answers what the customer asked, or says plainly what happens next.",
        "correctness": "What it promises or states of product, price and policy is true.",
        "tone": "It is courteous and takes the customer seriously, without empty phrases.",
        "actionability": "The steps that the customer must take are concrete, ordered and few.",
    },
    "competitive_analysis": {
        "coverage": "The competitors and dimensions that matter for the decision are all there.",
        "evidence": "Claims about competitors are dated and cited, and estimates are marked.",
        "comparability": "Competitors are compared by the same measures, side by side.",
        "balance": "Strengths of competitors and weaknesses of one's own are told as well.",
        "actionability": (
            "What follows for product, price or position is said, and from which finding."
        ),
    },
}
"""`general`, `cost_sensitive`, `research` and `code` are the chapter's sets, with equal weights.
`documentation`, `support_reply` and `competitive_analysis` answer its exercise 1."""

# A wrong API reference, a false promise and a claim without evidence do more harm than the rest.
WEIGHT_OF_TWO: dict[CriteriaPreset, tuple[str, ...]] = {
    "documentation": ("accuracy",),
    "support_reply": ("resolution", "correctness"),
    "competitive_analysis": ("evidence",),
}
PRESETS: dict[CriteriaPreset, tuple[Criterion, ...]] = {
    preset: tuple(
        Criterion(
            name=name, meaning=meaning, weight=2 if name in WEIGHT_OF_TWO.get(preset, ()) else 1
        )
        for name, meaning in meanings.items()
    )
    for preset, meanings in MEANINGS.items()
}

# Guardrails know a preset, and a request's own criteria, by these names.
ASKS_FOR_LENGTH = frozenset(
    {"citation_coverage", "source_quality", "navigability", "comparability"}
)
"""Criteria that ask for length: of `research`, `documentation` and `competitive_analysis` alone."""
ASKS_FOR_CITATIONS = frozenset({"citation_coverage", "source_quality", "evidence"})
"""Criteria that ask for citations: of `research` and `competitive_analysis`."""


def overall(scores: dict[str, float], criteria: tuple[Criterion, ...]) -> float:
    """Average scores, 0 to 1 by criterion, by the criteria's weights."""
    weights = fsum(criterion.weight for criterion in criteria)
    weighted = fsum(scores[criterion.name] * criterion.weight for criterion in criteria)
    return rounded(weighted / weights)


def rounded(score: float) -> float:
    """Round away floating-point error: the mean of three scores of 0.1 is 0.1."""
    return round(score, 9)


def passes(score: float, threshold: float) -> bool:
    """Tell whether a score reaches a threshold; rounding may leave a weighted sum just below."""
    return at_least(score, threshold)
