"""What is rebuilt of a run whose workers were killed, beside what they had written of it."""

import json
from pathlib import Path
from typing import Any

from temporalio.client import Client

import spans
from spans import Rebuilt


def told(span: dict[str, Any]) -> tuple[Any, ...]:
    """What must be the same wherever a span is written: all but when it was."""
    status, known = span["status"], span["attributes"]
    return span["name"], span["context"]["trace_id"], span["parent_id"], span["kind"], status, known


async def rebuilt_of(client: Client, workflow_id: str) -> list[Rebuilt]:
    """Rebuild a run from its first execution on, with its child runs."""
    described = await client.get_workflow_handle(workflow_id).describe()
    first = await spans.first_of(client, workflow_id, described.run_id)
    return [one async for one in spans.Rebuilder(client).whole(workflow_id, first)]


async def assert_whole(client: Client, workflow_id: str, traces: Path) -> list[Rebuilt]:
    """Each span is rebuilt as it was written, and with those that nobody wrote the tree is whole.

    What was written and is not rebuilt is a call that the history does not hold, named as lost.
    """
    found = await rebuilt_of(client, workflow_id)
    again = [json.loads(span.to_json()) for one in found for span in one.spans]
    rebuilt = {span["context"]["span_id"]: told(span) for span in again}
    written: dict[str, tuple[Any, ...]] = {}
    for line in traces.read_text().splitlines():
        span = json.loads(line)
        if span["context"]["trace_id"] == again[0]["context"]["trace_id"]:
            written[span["context"]["span_id"]] = told(span)
    alone = written.keys() - rebuilt.keys()

    assert [one.error for one in found] == [None] * len(found)
    assert len(again) == len(rebuilt)
    assert {span: written[span] for span in written.keys() & rebuilt.keys()} == {
        span: rebuilt[span] for span in written.keys() & rebuilt.keys()
    }
    assert all(written[span][0].startswith("chat ") for span in alone)
    assert len(alone) <= sum(count for one in found for count in one.lost.values())
    parents = {span[2] for span in [*rebuilt.values(), *written.values()]}
    still_open = {f"0x{span.context.span_id:016x}" for one in found for span in one.still_open}
    assert parents - rebuilt.keys() - still_open == {None}
    return found
