"""The activities of training: processes that end, that are cancelled, and the buffer."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.training.activity import TrainingActivities
from activities.training.artifacts import TrainingError, read_buffer, run_folder, write_buffer
from activities.training.port import (
    BUFFER,
    BufferResult,
    BufferTask,
    ControlTask,
    PairTask,
    ResultTask,
)
from bench.tiny_llama import rated_pairs
from mull.agents.rating import RatedPair, judgments
from mull.agents.training_result import RetroformerTrainingResult
from tests.patience import PATIENCE
from tests.training.stages import RUN, artifacts, task

RESULT = {"folder": "x", "steps": 1, "examples": 1, "seconds": 1.0, "device": "CPU"}
DONE = json.dumps({"done": RESULT})
NO_PAIRS = r"^\w+: No pairs.$"


def saying(root: Path, program: str) -> TrainingActivities:
    """Stand in for the program of a stage with a few lines."""
    return TrainingActivities(root, program=[sys.executable, "-c", f"import os, time\n{program}"])


async def kept(activities: TrainingActivities, *pairs: RatedPair) -> None:
    for pair in pairs:
        asked = PairTask(run=RUN, execution="e", pair=pair)
        await ActivityEnvironment().run(activities.keep_pair, asked)


async def assembled(activities: TrainingActivities) -> BufferResult:
    asked = BufferTask(run=RUN, execution="e", pairing="ordered")
    return await ActivityEnvironment().run(activities.assemble_buffer, asked)


def failing(*, permanent: bool) -> str:
    return json.dumps({"error": {"message": "No pairs.", "permanent": permanent}})


async def test_stage_is_trained_with_heartbeats(base: Path, tmp_path: Path) -> None:
    """A stage is trained in a process, and each step is a heartbeat."""
    root, environment = artifacts(tmp_path / "root", base), ActivityEnvironment()
    beats = list[tuple[int, int]]()
    environment.on_heartbeat = lambda *said: beats.extend((one["step"], one["of"]) for one in said)

    result = await environment.run(TrainingActivities(root).train_stage, task(epochs=2.0))

    assert result.folder == f"{RUN}/reward_model"
    assert result.steps == 6
    assert list(dict.fromkeys(beats)) == [(step, 6) for step in range(1, 7)]
    assert (root / result.folder / "done.json").exists()


@pytest.mark.parametrize(
    ("program", "said", "permanent"),
    [
        (f"print({failing(permanent=True)!r}, flush=True); time.sleep(60)", NO_PAIRS, True),
        (f"print({failing(permanent=False)!r}, flush=True); time.sleep(60)", NO_PAIRS, False),
        ("os.kill(0, 9)", "was ended by SIGKILL", False),
    ],
    ids=["for good", "for now", "killed"],
)
async def test_error_of_a_stage_is_its_own(
    tmp_path: Path, program: str, said: str, permanent: bool
) -> None:
    """What the process says went wrong is the error, and final where it says so.

    One that a signal ended, as where memory ran out, can be tried again.
    """
    with pytest.raises(ApplicationError, match=said) as error:
        await ActivityEnvironment().run(saying(tmp_path, program).train_stage, task())

    assert error.value.non_retryable == permanent


async def test_cancelled_process_is_killed(tmp_path: Path) -> None:
    """A stage that is cancelled ends within seconds, whatever its process is at."""
    note = tmp_path / "note"
    program = f"open({str(note)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    environment = ActivityEnvironment()

    running = asyncio.create_task(environment.run(saying(tmp_path, program).train_stage, task()))
    while not (note.exists() and note.read_text()):
        await asyncio.sleep(0.05)
    environment.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, PATIENCE)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


async def test_no_key_reaches_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training process is given what it needs, and no key of a provider."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HF_HOME", "/models")
    names = tmp_path / "names"
    program = f"open({str(names)!r}, 'w').write(' '.join(os.environ)); print({DONE!r})"

    await ActivityEnvironment().run(saying(tmp_path, program).train_stage, task())

    seen = names.read_text().split()
    assert {"HF_HOME", "PATH", "OMP_NUM_THREADS", "MULL_ARTIFACTS"} <= set(seen)
    assert "OPENAI_API_KEY" not in seen


async def test_one_stage_at_a_time(tmp_path: Path) -> None:
    """Two stages never share the machine: the second begins when the first has ended."""
    program = f"print(os.mkdir('busy') or time.sleep(0.3) or os.rmdir('busy') or {DONE!r})"
    activities = saying(tmp_path, f"os.chdir({str(tmp_path)!r}); {program}")

    runs = [ActivityEnvironment().run(activities.train_stage, task(run=run)) for run in "ab"]

    assert len(await asyncio.gather(*runs)) == 2


async def test_a_kept_pair_that_can_t_be_read_is_named(tmp_path: Path) -> None:
    """The buffer is refused for good, with the file's name in one line."""
    activities = TrainingActivities(tmp_path)
    await kept(activities, *rated_pairs(1, 0))
    [file] = run_folder(tmp_path, RUN).rglob("*.json")
    file.write_text("cut")

    with pytest.raises(ApplicationError, match=f"{file} can't be read") as error:
        await assembled(activities)

    assert error.value.non_retryable
    assert "\n" not in error.value.message


async def test_buffer_is_the_same_in_any_order(tmp_path: Path) -> None:
    """Pairs that come twice and in any order make one file, with where each pair comes from."""
    pairs, made = rated_pairs(5, 0), []
    for name, order in (("one", pairs), ("two", [*reversed(pairs), pairs[2]])):
        activities = TrainingActivities(tmp_path / name)
        await kept(activities, *order)
        made.append(await assembled(activities))

    first, second = made
    lines = (tmp_path / "one" / first.path).read_text().splitlines()
    assert first == second
    assert (first.counts.pairs, first.counts.good, first.counts.preferences) == (5, 5, 5)
    assert [json.loads(line)["workflow_id"] for line in lines] == [f"made-{n}" for n in range(5)]
    assert read_buffer(run_folder(tmp_path / "one", RUN)) == pairs


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "line 2: Invalid JSON: EOF"),
        (b'{"tried": []}', "line 2: environment: missing; task: missing"),
        (b"\xff", "line 2: Invalid JSON: "),
    ],
)
def test_damaged_buffer_is_one_clear_line(line: bytes, said: str, tmp_path: Path) -> None:
    """A line that is no pair is refused in one line that says where it is, and quotes nothing."""
    write_buffer(tmp_path, rated_pairs(2, 0))
    first, _ = (tmp_path / BUFFER).read_bytes().splitlines()
    (tmp_path / BUFFER).write_bytes(first + b"\n" + line + b"\n")

    with pytest.raises(TrainingError, match=f"can't be read at {said}") as refused:
        read_buffer(tmp_path)

    assert "\n" not in str(refused.value)


async def test_buffer_of_nothing_is_empty(tmp_path: Path) -> None:
    """A run that collected nothing has an empty file and counts of 0."""
    result = await assembled(TrainingActivities(tmp_path))

    assert (tmp_path / result.path).read_bytes() == b""
    assert result.counts.pairs == 0


@pytest.mark.parametrize("run", ["..", ".", "a/../../b", "/etc", "x" * 900, "ä b\n"])
def test_run_stays_in_the_folder(run: str, tmp_path: Path) -> None:
    """Whatever an id holds, its folder is one in MULL_ARTIFACTS, and its own."""
    folder = run_folder(tmp_path, run)

    folder.mkdir()

    assert folder.resolve().parent == tmp_path.resolve()
    assert folder != run_folder(tmp_path, f"{run}.")


async def test_what_a_stage_holds_others_put_aside(tmp_path: Path) -> None:
    """While a stage trains nothing else holds models."""
    note = tmp_path / "note"

    @asynccontextmanager
    async def aside() -> AsyncIterator[None]:
        note.write_text("aside")
        yield
        note.write_text("back")

    done = json.dumps({"done": RESULT | {"device": "?"}}).replace("?", "{}")
    program = f"print({done!r}.replace('{{}}', open({str(note)!r}).read()))"
    activities = TrainingActivities(tmp_path, program=[sys.executable, "-c", program], aside=aside)

    result = await ActivityEnvironment().run(activities.train_stage, task())

    assert (result.device, note.read_text()) == ("aside", "back")


async def test_a_reflector_has_the_training_s_result(tmp_path: Path) -> None:
    """So whoever is given the adapter alone knows what it gained."""
    recorded = Path("tests/replay/unreleased/outcomes/training-trained.json").read_text()
    result = RetroformerTrainingResult.model_validate(json.loads(recorded)["result"])
    folder = run_folder(tmp_path, RUN)
    (folder / "reflector").mkdir(parents=True)

    asked = ResultTask(run=RUN, result=result)
    await ActivityEnvironment().run(TrainingActivities(tmp_path).keep_result, asked)

    for place in (folder, folder / "reflector"):
        kept = (place / "result.json").read_bytes()
        assert RetroformerTrainingResult.model_validate_json(kept) == result


async def test_shuffled_labels_tell_nothing(tmp_path: Path) -> None:
    """Of pairs of equal gain too; those held out keep theirs. The same seed gives the same ones."""
    drawn, pairs = Random(0), list[RatedPair]()
    for number, pair in enumerate(rated_pairs(1_000, 0)):
        # Nearly a third of all reflections are good, each by itself.
        good = [drawn.random() < 0.3 for _ in pair.tried]
        texts = [f"{'good' if one else 'bad'} {place}" for place, one in enumerate(good)]
        tried = tuple(
            item.model_copy(update={"reflection": text})
            for item, text in zip(pair.tried, texts, strict=True)
        )
        known = {"tried": tried, "held_out": number % 5 == 0}
        pairs.append(pair.model_copy(update=known).gaining(*map(float, good)))
    write_buffer(run_folder(tmp_path, RUN), pairs)
    found = list[list[RatedPair]]()
    for seed in (1, 1, 2):
        asked = ControlTask(run=RUN, control=f"{RUN}/control", seed=seed)
        await ActivityEnvironment().run(TrainingActivities(tmp_path).shuffle_labels, asked)
        found.append(read_buffer(run_folder(tmp_path, f"{RUN}/control")))

    assert read_buffer(run_folder(tmp_path, RUN)) == pairs
    assert found[0] == found[1] != found[2]
    assert [one for one in found[0] if one.held_out] == [one for one in pairs if one.held_out]
    learned = [one for one in found[0] if not one.held_out]
    for pairing in ("positive", "ordered"):
        labels = judgments(learned, pairing)
        shares = [
            sum(one.reflection.startswith("good") for one in labels if one.correct is label)
            / sum(one.correct is label for one in labels)
            for label in (True, False)
        ]
        assert shares == pytest.approx([0.3, 0.3], abs=0.07)
