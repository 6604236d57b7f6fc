"""What alerts and dashboards ask for, against what a worker's /metrics has after a few runs."""

import asyncio
import json
import os
import re
import urllib.request
import uuid
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
from temporalio.client import Client, WorkflowFailureError

from commands.embedded import Place, free_port
from mull.connection import TASK_QUEUE, connect
from mull.sampling.rules import Stopping
from tests import forks
from tests.conftest import QUERY
from tests.deploy.conftest import DASHBOARDS, ROOT, RULES
from tests.e2e.model import AGREE, IMPROVES, NO_KEY, reply
from tests.patience import PATIENCE
from tests.scripted_endpoint import Reply, Scripted, ScriptedEndpoint
from tests.unit.test_calibrated import made as calibration_map

# What Prometheus itself makes of a scrape.
OWN = {"up": {"job": {"mull"}, "instance": {"workflows:9464"}}}
CODE = 50_000
# A label and its values, of each metric.
Series = dict[str, dict[str, set[str]]]
# What the runs below don't come to, and where it is emitted.
UNSEEN = {("outcome", "sandbox_error"): "activities/sandbox/port.py"}


def known_map() -> dict[str, Any]:
    """Return a calibration map that fits the run below."""
    traits = {"model": None, "prompt_hash": None, "answers": "number"}
    return calibration_map(**traits, stopping=Stopping(rule="ahead_by")).model_dump(mode="json")


RUNS: list[tuple[str, dict[str, Any]]] = [
    (
        "SelfConsistencyWorkflow",
        {"question": "17 + 112?", "seed": AGREE, "rule": "ahead_by", "answers": "number"}
        | {"calibration": known_map()},
    ),
    ("ReflectOnResultWorkflow", {"query": QUERY, "seed": IMPROVES, "guardrails": []}),
    ("SelfConsistencyWorkflow", {"question": "How much?", "seed": NO_KEY}),
    ("MultiPathWorkflow", {"prompt": "Double it.\n>>> double(4)\n8", "mode": "code", "seed": CODE}),
]


def replies(seed: int) -> Reply:
    """Write the function, or reply as other tests' models do."""
    code = "```python\ndef double(number):\n    return 2 * number\n```"
    return Scripted(code) if seed == CODE else reply(seed)


async def run_all() -> None:
    """Run each once, one of which fails, and one has code tested in the sandbox.

    One more stands still, since the worker has no key for its request.
    """
    client: Client = await connect()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULL_ENCRYPTION_KEYS", f"lost:{b64encode(bytes(32)).decode()}")
        sealed = await connect()
    still = await sealed.start_workflow(
        *RUNS[0], id=f"metrics-{uuid.uuid4().hex}", task_queue=TASK_QUEUE
    )
    ended = await asyncio.gather(
        *(
            client.execute_workflow(
                kind, request, id=f"metrics-{uuid.uuid4().hex}", task_queue=TASK_QUEUE
            )
            for kind, request in RUNS
        ),
        return_exceptions=True,
    )
    assert [type(each) for each in ended if isinstance(each, Exception)] == [WorkflowFailureError]
    await still.terminate()


def scrape(address: str) -> Series:
    """Read which labels and values the series of each metric have."""
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE).read().decode()
    found: Series = {}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            found.setdefault(name, {}).setdefault(label, set()).add(value)
    return found


@pytest.fixture(scope="module")
def emitted(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Series]:
    """Every series of a worker that has run what dashboards show, with its labels."""
    address = f"127.0.0.1:{free_port()}"
    log = tmp_path_factory.mktemp("metrics") / "log"
    with pytest.MonkeyPatch.context() as patch, ScriptedEndpoint(by_seed=replies) as endpoint:
        patch.setenv("TEMPORAL_ADDRESS", place.address)
        # One whose price is known.
        model = {"MULL_MODEL": "openai/gpt-4o-mini", "OPENAI_API_BASE": endpoint.url}
        given = {**os.environ, **model, "OPENAI_API_KEY": "scripted"}
        command = ["worker.py", "--queues", "mull,llm,code,tools", "--metrics", address]
        process = forks.start(command, given, log, log)
        try:
            asyncio.run(asyncio.wait_for(run_all(), PATIENCE))
            yield scrape(address) | OWN
        finally:
            process.terminate()
            process.join(PATIENCE)


def asked(
    node: Any, kept: frozenset[str] = frozenset()
) -> Iterator[tuple[str, set[str], dict[str, str]]]:
    """List the metrics that a query names, with the labels it needs of each and their values."""
    match type(node).__name__:
        case "VectorSelector":
            values = {each.name: each.value for each in node.matchers.matchers}
            yield node.name, {*kept, *values}, values
        case "MatrixSelector":
            yield from asked(node.vector_selector, kept)
        case "AggregateExpr":
            by = node.modifier.labels if node.modifier else ()
            yield from asked(node.expr, kept | frozenset(by))
        case "Call":
            for argument in node.args:
                yield from asked(argument, kept)
        case "BinaryExpr":
            yield from asked(node.lhs, kept)
            yield from asked(node.rhs, kept)
        case "ParenExpr":
            yield from asked(node.expr, kept)
        case other:
            assert other == "NumberLiteral", other


def readable(query: str) -> str:
    """Put values for Grafana's own variables into a query."""
    return query.replace("$__rate_interval", "5m").replace("$__range", "6h")


PANELS = [each for path in DASHBOARDS for each in json.loads(path.read_text("utf-8"))["panels"]]
# The name of each alert and panel, what it asks for, and the text that uses its labels.
QUERIES = [
    *((rule["alert"], rule["expr"], rule["annotations"]["summary"]) for rule in RULES),
    *(
        (panel["title"], target["expr"], target["legendFormat"])
        for panel in PANELS
        for target in panel["targets"]
    ),
]


@pytest.mark.parametrize(("name", "query", "shown"), QUERIES, ids=[each[0] for each in QUERIES])
def test_what_is_asked_for_is_emitted(emitted: Series, name: str, query: str, shown: str) -> None:
    """Each metric is one that a worker has after a few runs, with each label that is named."""
    used = set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", shown))

    for metric, labels, values in asked(promql_parser.parse(readable(query))):
        assert metric in emitted, f"{name}: nothing emits {metric}"
        missing = (labels | used) - set(emitted[metric])
        assert not missing, f"{name}: {metric} has no {missing}"
        for label, value in values.items():
            place = UNSEEN.get((label, value))
            if place is None:
                assert value in emitted[metric][label], f"{name}: no {metric} has {label}={value}"
            else:
                assert f'"{value}"' in (ROOT / place).read_text("utf-8")


@pytest.mark.parametrize("name", sorted({name for name, *_ in QUERIES}))
def test_each_queue_that_is_named_is_told_of(emitted: Series, name: str) -> None:
    """Where queues are told apart, each that a runbook or a panel names has such a series."""
    runbook = (ROOT / "docs/runbooks.md").read_text("utf-8").partition(f"\n## {name}\n")[2]
    panel = [each["description"] for each in PANELS if each["title"] == name]
    named = re.findall(r"\bmull-(?:llm|code)\b", " ".join([runbook.partition("\n## ")[0], *panel]))
    given = [readable(query) for other, query, _ in QUERIES if other == name]
    selected = [
        each
        for query in given
        for each in asked(promql_parser.parse(query))
        if "task_queue" in each[1]
    ]

    told = {
        queue
        for metric, _, values in selected
        for queue in emitted[metric]["task_queue"]
        if values.get("task_queue", queue) == queue
    }
    assert not selected or set(named) <= told
