"""What tracing, search attributes, memo and metrics have of an agent, each task replayed."""

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

import spans as rebuilding
from telemetry import RETURNS
from tests.workflows.agents.running import Counting, Handle, ScriptedAgent, served, start
from tests.workflows.test_spans import CHAT, CONTENT, attributes, identity, observed, tree
from tests.workflows.test_rebuilt import by_id, rebuilt_of

RUN = "invoke_workflow ReflexionWorkflow"


async def learn(client: Client, **fields: Any) -> Handle:
    """Fail in an episode of three steps, and solve the task in one of two."""
    plans = ["secret thought. add[3]", "add[3]", "[answer] 6 secret", "add[7]", "[answer] 7"]
    model = observed(ScriptedAgent(plans, ["a secret lesson"]))
    async with served(client, model):
        handle = await start(client, {"task": "7", **fields})
        await handle.result()
    return handle


async def test_print(client: Client, spans: InMemorySpanExporter) -> None:
    handle = await learn(client)
    finished = spans.get_finished_spans()
    print(json.dumps(tree(finished), indent=1))
    for s in sorted(finished, key=lambda s: s.start_time):
        print(s.name, attributes(s))
    d = await handle.describe()
    print({p.key.name: p.value for p in d.typed_search_attributes}, await d.memo())
