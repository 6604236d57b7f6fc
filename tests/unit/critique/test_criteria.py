"""The presets of criteria."""

from typing import get_args

import pytest

from mull.critique.criteria import CriteriaPreset
from mull.critique.request import ReflectOnResultRequest

# By preset: its criteria, each once for each unit of its weight.
CRITERIA: dict[CriteriaPreset, str] = {
    "general": "completeness correctness clarity",
    "cost_sensitive": "completeness correctness",
    "research": "completeness correctness clarity citation_coverage source_quality",
    "code": "correctness efficiency readability edge_cases",
    "documentation": "accuracy accuracy completeness examples navigability",
    "support_reply": "resolution resolution correctness correctness tone actionability",
    "competitive_analysis": "coverage evidence evidence comparability balance actionability",
}


@pytest.mark.parametrize("preset", get_args(CriteriaPreset))
def test_a_preset_has_its_criteria(preset: CriteriaPreset) -> None:
    """Whoever names a preset is judged by these criteria; the chapter's sets weigh all alike."""
    judged_by = ReflectOnResultRequest(query="q", criteria=preset).judged_by

    weighed = [name for one in judged_by for name in [one.name] * int(one.weight)]
    assert weighed == CRITERIA[preset].split()
    assert all(one.weight in {1, 2} for one in judged_by)
