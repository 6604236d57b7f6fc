"""The presets of criteria."""

from typing import get_args

import pytest

from reflection.critique.criteria import PRESETS, CriteriaPreset
from reflection.critique.request import ReflectOnResultRequest

# By preset: its criteria with their weights.
WEIGHTS: dict[CriteriaPreset, dict[str, float]] = {
    "general": {"completeness": 1, "correctness": 1, "clarity": 1},
    "cost_sensitive": {"completeness": 1, "correctness": 1},
    "research": {
        **{"completeness": 1, "correctness": 1, "clarity": 1},
        **{"citation_coverage": 1, "source_quality": 1},
    },
    "code": {"correctness": 1, "efficiency": 1, "readability": 1, "edge_cases": 1},
    "documentation": {"accuracy": 2, "completeness": 1, "examples": 1, "navigability": 1},
    "support_reply": {"resolution": 2, "correctness": 2, "tone": 1, "actionability": 1},
    "competitive_analysis": {
        **{"coverage": 1, "evidence": 2, "comparability": 1, "balance": 1, "actionability": 1},
    },
}


@pytest.mark.parametrize("preset", get_args(CriteriaPreset))
def test_a_preset_has_its_criteria(preset: CriteriaPreset) -> None:
    """Whoever names a preset is judged by these criteria; the chapter's sets weigh all alike."""
    judged_by = ReflectOnResultRequest(query="q", criteria=preset).judged_by

    assert judged_by == PRESETS[preset]
    assert {criterion.name: criterion.weight for criterion in judged_by} == WEIGHTS[preset]
