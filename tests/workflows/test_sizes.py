"""No event of a run passes 512 KiB, whatever its request allows."""

from typing import Any

import pytest
from temporalio.client import Client

from activities.language_model.port import LanguageModel
from reflection.text import CUT_NOTE
from tests.conftest import begin, served
from tests.scripted import ScriptedCritic, ScriptedModel
from tests.workflows.multipath.running import researching

LARGE = "é" * 49_500
SCORES = [0.1 + place / 20 for place in range(11)]
RUNS: list[tuple[str, dict[str, Any], LanguageModel]] = [
    (
        "SelfConsistencyWorkflow",
        {"question": LARGE, "rule": "fixed", "max_responses": 60, "min_responses": 1},
        ScriptedModel([f"{place} " + "é" * 400 for place in range(60)]),
    ),
    (
        "ReflectOnResultWorkflow",
        {
            "query": LARGE,
            "sources": [LARGE],
            "max_revisions": 10,
            "min_gain": 0,
            "score_threshold": 1,
            "min_complexity": 0,
            "guardrails": [],
            "max_output_tokens": 32_768,
        },
        ScriptedCritic([f"{place}{LARGE}" for place in range(11)], SCORES),
    ),
    (
        "MultiPathWorkflow",
        {"prompt": LARGE, "mode": "research", "max_revisions": 1},
        researching(f"# Report\n\n{LARGE}"),
    ),
]


@pytest.mark.parametrize(("kind", "request_", "model"), RUNS, ids=[run[0] for run in RUNS])
async def test_no_event_passes_512_kib(
    client: Client, kind: str, request_: dict[str, Any], model: LanguageModel
) -> None:
    """What is cut has a note at its end, and the result a line in its warnings."""
    async with served(client, model):
        handle = await begin(client, request_, kind)
        result = await handle.result()
    sizes = [event.ByteSize() async for event in handle.fetch_history_events()]

    assert max(sizes) <= 512 * 1024
    if kind != "SelfConsistencyWorkflow":
        assert all(draft["text"].endswith(CUT_NOTE) for draft in result["drafts"])
        assert any("draft 1 was cut" in warning for warning in result["warnings"])
