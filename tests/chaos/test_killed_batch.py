"""A worker that is killed outright while a batch goes on."""

import asyncio
import json
from pathlib import Path

from temporalio.client import Client

from mull.batch.result import BatchResult
from tests.chaos.rebuilt import assert_whole
from tests.chaos.working import working
from tests.conftest import begin
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint
from tests.workflows.batches import drafts, judging

RUNS, PAGES = 8, 3


def judged(request: Body) -> Scripted:
    prompt = request["messages"][-1]["content"]
    score = float(prompt.partition('Draft: "score ')[2].partition('"')[0])
    scores = dict.fromkeys(("completeness", "correctness", "clarity"), score)
    point = {"criterion": "clarity", "place": "the end", "advice": "Say which one."}
    said = {"feedback": [point], "criteria_scores": scores, "confidence": "high"}
    return Scripted(json.dumps(said), delay=0.4)


async def test_a_killed_worker_changes_nothing(client: Client, tmp_path: Path) -> None:
    """Every run is made and recorded once, those in flight at the kill too, and so in pages."""
    items = drafts(*(f"score 0.{place}" for place in range(1, RUNS + 1)))
    limits = {"variants": [judging()], "max_concurrency": 2, "runs_per_execution": 5}
    with ScriptedEndpoint(by_seed=lambda _: judged) as endpoint:
        async with working(endpoint, tmp_path / "spans") as start:
            process = start()
            handle = await begin(client, {**limits, "items": items}, "BatchWorkflow")
            paged = await begin(client, {**limits, "pages": PAGES}, "BatchWorkflow")
            await paged.execute_update("add_page", {"number": 0, "items": items[:3]})
            await paged.execute_update("add_page", {"number": 1, "items": items[3:6]})
            async with asyncio.timeout(PATIENCE):
                while len(endpoint.requests) < 6:
                    await asyncio.sleep(0.02)
            process.kill()
            process.join(PATIENCE)
            late = asyncio.create_task(
                paged.execute_update("add_page", {"number": 2, "items": items[6:]})
            )
            start()
            await late
            result = BatchResult.model_validate(await asyncio.wait_for(handle.result(), PATIENCE))
            whole = BatchResult.model_validate(await asyncio.wait_for(paged.result(), PATIENCE))
        made = len(endpoint.requests)

    found = await assert_whole(client, handle.id, tmp_path / "spans")
    assert sum(len(one.children) for one in found) == RUNS
    assert [(each.item, each.status) for each in result.runs] == [
        (place, "completed") for place in range(RUNS)
    ]
    assert result.tokens == whole.tokens == 18 * RUNS
    assert (whole.completed, whole.total) == (RUNS, RUNS)
    assert 2 * RUNS <= made <= 2 * RUNS + 4
