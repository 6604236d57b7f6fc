import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.training.activity import ScoringActivities, variables
from activities.training.port import Scores, ScoreTask
from activities.training.served import Served
from activities.training.weights import load_reward_model, load_tokenizer, score
from tests.patience import PATIENCE
from tests.training.serving import PROMPT, artifacts

# They share a server, whose process takes seconds to start.
pytestmark = pytest.mark.asyncio(loop_scope="module")

REFLECTIONS = ("Next time, I will check each key.", "Next time, I will guess once more.", "")
TASK = ScoreTask(reward_model="train-1/reward_model", prompt=PROMPT, reflections=REFLECTIONS)


@pytest.fixture(scope="module")
def root(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts(base, tmp_path_factory.mktemp("run") / "artifacts")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(root: Path) -> AsyncIterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        async with Served(root) as made:
            yield made


async def scored(served: Served, task: ScoreTask = TASK) -> Scores:
    return await ActivityEnvironment().run(ScoringActivities(served.score).score_reflections, task)


async def test_scores(served: Served, root: Path) -> None:
    """Each reflection gets the reward model's score; a model that has none is an error for good."""
    folder = root / TASK.reward_model
    model, tokenizer = load_reward_model(folder), load_tokenizer(folder)

    found = await scored(served)

    pairs = [(PROMPT, reflection) for reflection in REFLECTIONS]
    assert list(found.scores) == score(model, tokenizer, pairs)
    for name, said in (
        ("train-9/reward_model", "There is no model train-9/reward_model in MULL_ARTIFACTS."),
        ("train-1/reflector", "is not a reward model"),
        ("broken", "can't be loaded"),
    ):
        with pytest.raises(ApplicationError, match=said) as failed:
            await scored(served, TASK.model_copy(update={"reward_model": name}))
        assert failed.value.non_retryable
        assert "\n" not in failed.value.message


async def test_no_keys(served: Served) -> None:
    """The process has no provider's key, and one thread."""
    await scored(served)
    assert served._process is not None
    there = Path(f"/proc/{served._process.pid}/environ").read_text().split("\0")

    assert "OMP_NUM_THREADS=1" in there
    assert not any("sk-secret" in one for one in there)
    given = {"HF_HOME": "/hub", "CUDA_VISIBLE_DEVICES": "0", "HOME": "/me", "HFX": "1"}
    kept = variables(given, Path("/artifacts"))
    assert {"HF_HOME", "CUDA_VISIBLE_DEVICES", "HOME", "MULL_ARTIFACTS"} <= set(kept)
    assert "HFX" not in kept


async def test_a_cancelled_call(served: Served) -> None:
    """A call that is cancelled ends at once, whatever the process does."""
    await scored(served)
    process = served._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    environment = ActivityEnvironment()
    call = asyncio.create_task(
        environment.run(ScoringActivities(served.score).score_reflections, TASK)
    )
    await asyncio.sleep(0.5)

    environment.cancel()

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await call
    os.kill(process.pid, signal.SIGCONT)


async def test_a_lost_process(served: Served) -> None:
    """Calls under way are tried again when the process dies, and another one takes the next."""
    await scored(served)
    process = served._process
    assert process is not None
    long = TASK.model_copy(update={"reflections": ("I will check each key. " * 250,) * 16})
    calls = [asyncio.create_task(scored(served, long)) for _ in range(8)]
    await asyncio.sleep(1)

    process.kill()

    ended = await asyncio.gather(*calls, return_exceptions=True)
    lost = [error for error in ended if isinstance(error, ApplicationError)]
    assert lost
    assert {(error.type, error.non_retryable) for error in lost} == {("serving_lost", False)}
    assert len((await scored(served)).scores) == 3
    assert served._process is not process


async def test_a_call_that_waits(served: Served) -> None:
    """A call that was not taken before the process died is taken by the next one."""
    await scored(served)
    process = served._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    call = asyncio.create_task(scored(served))
    await asyncio.sleep(0.5)

    process.kill()

    assert len((await call).scores) == 3
