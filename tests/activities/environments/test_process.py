import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.environments.activity import EpisodeTask, Executor, LiveEnvironments
from activities.environments.port import Named, TaskError, TaskRef
from activities.environments.process import Apart
from tests.activities.environments.episodes import Episode
from tests.activities.environments.toys import Toy
from tests.patience import patiently

TASK = TaskRef(environment="toy", task="blocks", seed=3)
WORKER = """
import sys, time
from activities.environments.process import Apart
from tests.activities.environments.test_process import TASK
from tests.activities.environments.toys import Toy

toy = Apart(Toy, TASK)
toy.reset(1)
print(toy.step("process").observation, flush=True)
time.sleep(600)
"""


@pytest.fixture
def toy() -> Iterator[Apart]:
    """A toy that has begun, by seed 3."""
    made = Apart(Toy, TASK)
    made.reset(3)
    yield made
    made.close()


def process_of(toy: Apart) -> int:
    """Return the id of a toy's process."""
    return int(toy.step("process").observation)


def lives(process: int) -> bool:
    """Tell whether there is such a process, if only for its parent to take note of its end."""
    return Path(f"/proc/{process}").exists()


def ends(process: int) -> bool:
    """Wait for the end of a process."""
    return any(not lives(process) for _ in patiently(0.02))


def test_begins() -> None:
    """It has what its class says, and after `reset` what this one of it allows."""
    toy = Apart(Toy, TASK)
    assert (toy.name, toy.instructions) == ("toy", Toy.instructions)
    assert (toy.planner_examples, toy.reflector_examples) == (
        Toy.planner_examples,
        Toy.reflector_examples,
    )
    assert toy.reset(7) == "toy blocks"

    assert toy.allowed_actions == ("wait", "say 7")
    assert toy.step("wait").observation.startswith("1: wait")
    toy.close()


def test_keeps_its_state(toy: Apart) -> None:
    """Calls reach the same object, outside of this process, until it begins anew."""
    first = process_of(toy)
    toy.step("wait")

    assert toy.step("go").observation.startswith("3: go")
    assert toy.evaluate("done").reward == 3
    assert process_of(toy) == first != os.getpid()
    toy.reset(3)
    assert toy.step("wait").observation.startswith("1: wait")
    assert not lives(first)


def test_has_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the worker's variables is there but where temporary files lie."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("TMPDIR", "/tmp")  # noqa: S108 - no file is made
    toy = Apart(Toy, TASK)
    toy.reset(1)

    seen = json.loads(toy.step("variables").observation)
    toy.close()

    # Python itself sets LC_CTYPE.
    assert seen.keys() - {"LC_CTYPE"} == {
        "TMPDIR",
        "OPENBLAS_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTHONUTF8",
    }
    assert seen["PYTHONHASHSEED"] == "0"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("exit", "SystemExit: 3"),
        ("raise", "ValueError: no such verb"),
        ("fill", "MemoryError"),
        ("end", "the process of toy ended with 4"),
        ("crash", f"the process of toy ended with {-signal.SIGSEGV}"),
        (None, f"the process of toy ended with {-signal.SIGKILL}"),
    ],
)
def test_ends(toy: Apart, action: str | None, message: str) -> None:
    """A process that raises, exits, crashes or is killed is an error in words, and is over."""
    process = process_of(toy)
    if action is None:
        os.kill(process, signal.SIGKILL)

    with pytest.raises(RuntimeError, match=message):
        toy.step(action or "wait")

    assert not lives(process)
    with pytest.raises(RuntimeError, match="the process of toy has ended"):
        toy.step("wait")
    assert toy.reset(3)
    assert toy.step("wait").observation.startswith("1: wait")


def test_hangs() -> None:
    """A call that hangs, in C or at the beginning, is ended with its process."""
    toy = Apart(Toy, TASK, seconds=2)
    toy.reset(1)
    process = process_of(toy)

    with pytest.raises(RuntimeError, match="toy took more than 2 s, and was ended"):
        toy.step("hang")
    with pytest.raises(RuntimeError, match="toy took more than 2 s, and was ended"):
        Apart(Toy, TaskRef(environment="toy", task="stuck"), seconds=2).reset(1)

    assert not lives(process)


def test_endless_answer() -> None:
    """An answer that can't be judged in time is wrong; a judge that exits is an error."""
    toy = Apart(Toy, TASK, seconds=2)
    toy.reset(1)

    found = toy.evaluate("endless")

    assert (found.reward, found.correct) == (0.0, False)
    assert found.feedback == "The answer could not be judged within 2 s."
    toy.reset(1)
    with pytest.raises(RuntimeError, match="ended with 1"):
        toy.evaluate("exit")


def test_no_such_task(toy: Apart) -> None:
    """That there is no such task is said as the environment says it."""
    with pytest.raises(TaskError, match="there is no such toy"):
        Apart(Toy, TaskRef(environment="toy", task="none")).reset(1)
    with pytest.raises(TaskError, match="no such task"):
        toy.step("refuse")


def test_output(toy: Apart) -> None:
    """What it prints is no reply, and a long reply arrives whole."""
    assert toy.step("print").observation.startswith("1: print")
    assert len(toy.step("large").observation) == 1_000_000


def test_no_process_is_left(toy: Apart) -> None:
    """A toy that is closed, or that nobody holds any more, has no process."""
    closed, dropped = process_of(toy), Apart(Toy, TASK)
    dropped.reset(1)
    held = process_of(dropped)

    toy.close()
    toy.close()
    del dropped

    assert not lives(closed)
    assert not lives(held)


def test_worker_is_killed(root: Path) -> None:
    """The process ends with the worker, though that is killed."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    process = int(worker.stdout.readline())
    assert lives(process)

    worker.kill()
    worker.communicate()

    # Where a test of sandboxes ran before in this process, it is the one that takes orphans in.
    with suppress(ChildProcessError):
        os.waitpid(process, 0)
    assert ends(process)


async def test_rebuilt_after_a_crash() -> None:
    """An action that follows a crash is taken in a new process, which observes the same."""
    episode = Episode(partial(Apart, Toy), TASK)
    before = await episode.see("wait", "go")
    with pytest.raises(ApplicationError, match="the process of toy ended with 4"):
        await episode.act("end")

    after = await episode.see("wait", "process")
    moved = await Episode(partial(Apart, Toy), TASK).see("wait", "go", "wait")

    assert [*before, after[0]] == moved
    assert not lives(int(after[1])) or (await episode.evaluate(None)).correct


async def test_late_steps_leave_no_process() -> None:
    """A step that is too slow for its activity is ended with its process, and its thread."""
    live = LiveEnvironments([Named("toy", partial(Apart, Toy))])
    made = Apart(Toy, TASK)
    made.reset(3)
    process = process_of(made)
    await live.keep("1", made, ())
    task = EpisodeTask(task=TASK, key="1", action="hang", timeout_seconds=0.2)

    with pytest.raises(ApplicationError, match=r"did not answer within 0\.2 s"):
        await ActivityEnvironment().run(Executor(live).execute_action, task)

    assert not lives(process)
    with pytest.raises(RuntimeError, match="the process of toy has ended"):
        made.step("wait")
