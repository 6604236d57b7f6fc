"""Small runs under constant kills, and what the benchmark of them finds wrong."""

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench import chaos
from spans import Rebuilt
from tests.chaos.stage import Stage

RESULT = {"answer": "7 [sample_0 1]", "decisions": [{}, {}], "question": "How much in case 4?"}
ASKED = {"messages": [{"content": "How much in case 4?"}], "seed": 0}


async def test_kills_lose_nothing(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker and server are killed after every sixth run: each ends alike, with its spans."""
    assert spans is not None
    # The stage names its server there.
    monkeypatch.setenv("TEMPORAL_ADDRESS", "")
    monkeypatch.setattr(chaos, "SERVER_EVERY", 2)
    async with Stage(tmp_path) as stage:
        runs = chaos.SmallRuns(stage, 32)
        runs.start_worker()
        for number in (0, 1):
            await runs.make(number)
        making = [asyncio.create_task(runs.make(number)) for number in range(2, 32)]
        for ended in (6, 12, 18, 24, 32):
            while runs.found.done < ended:
                await asyncio.sleep(0.05)
            await runs.kill_worker()
        await asyncio.gather(*making)
        runs.note_late_calls()

    found = runs.found
    assert found.wrong == dict.fromkeys(found.wrong, 0), found
    assert (found.done, found.decisions) == (32, 16 * 3 + 16 * 2)
    assert (found.worker_kills, found.server_kills) == (5, 2)
    assert len([*tmp_path.glob("spans-*")]) <= 1


@pytest.mark.parametrize(("runs", "minutes", "done"), [(6, None, 6), (20_000, 1e-9, 2)])
async def test_how_many_were_made_is_written_down(
    spans: InMemorySpanExporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runs: int,
    minutes: float | None,
    done: int,
) -> None:
    """A benchmark that is stopped early says so, in its words and in its file."""
    assert spans is not None
    monkeypatch.setenv("TEMPORAL_ADDRESS", "")
    state = tmp_path / "build" / "state.json"
    given = Namespace(runs=runs, minutes=minutes, at_once=2, state=state)

    wrong = await chaos.kill_all_along(given, tmp_path)

    found = json.loads(state.read_text())
    assert (wrong, found["asked"], found["done"]) == (0, runs, done)
    assert f"{done} of {runs:,} runs in" in capsys.readouterr().out


def runs_of(folder: Path, monkeypatch: pytest.MonkeyPatch, result: Any) -> chaos.SmallRuns:
    async def made(*_: object) -> Any:
        return [result]

    async def rebuilt_of(*_: object) -> list[Rebuilt]:
        return [Rebuilt("small-4", "run", error="gone")]

    monkeypatch.setattr(chaos, "made", made)
    monkeypatch.setattr(chaos, "rebuilt_of", rebuilt_of)
    kept: dict[str, list[Any]] = {"requests": [], "paths": [], "authorizations": []}
    stage: Any = SimpleNamespace(folder=folder, client=None, endpoint=SimpleNamespace(**kept))
    return chaos.SmallRuns(stage, 1)


async def test_what_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that was asked for again, another result, and decisions with too few or two spans."""
    runs = runs_of(tmp_path, monkeypatch, RESULT)
    runs.model(ASKED)
    await runs.make(4)
    assert runs.found.wrong == dict.fromkeys(runs.found.wrong, 0)

    runs.model(ASKED)
    runs.note_late_calls()
    assert runs.found.repeated == ["small-4: ['sample_0'] after its end"]

    await runs.make(4)
    assert runs.found.repeated[1].startswith("small-4: recorded [('sample_0', 1)], asked for last")
    runs.found.repeated.clear()

    runs.model.last.clear()
    other = runs_of(tmp_path, monkeypatch, RESULT | {"answer": "8"})
    other._expected = runs._expected
    await other.make(4)
    assert len(other.found.different) == 1

    spans = [("root", {"mull.workflow_id": "small-4"}), *(("mull.decision", {}) for _ in range(3))]
    lines = [
        json.dumps(
            {
                "name": name,
                "attributes": known,
                "context": {"trace_id": "t", "span_id": str(number)},
            }
        )
        for number, (name, known) in enumerate(spans)
    ]
    for count, named in ((2, "without span"), (3, ""), (4, "two spans")):
        runs.found = chaos.Found(1)
        (tmp_path / "written").write_text("\n".join([*lines[:count], '{"half": ']))
        runs._read(tmp_path / "written")
        await runs._compare(4, 2)
        assert [name for name, wrong in runs.found.wrong.items() if wrong] == [
            *filter(None, [named])
        ]
