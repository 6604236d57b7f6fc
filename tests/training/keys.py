"""An environment in which a good reflection is known, and a worker that trains on it for real."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from activities.environments.port import Evaluation, StepResult, TaskRef
from bench.tiny_llama import COLOURS, THINGS, build, is_good
from commands.embedded import free_port, is_free
from mull.agents.memory import (
    Action,
    EpisodicMemory,
    PlannerExample,
    ProceduralMemory,
    ReflectorExample,
    Trajectory,
)
from mull.agents.prompts import reflector_prompt
from tests import forks
from tests.patience import PATIENCE, patiently
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

WRONG, RIGHT = "[answer] force", "[answer] key"
TOLD = "It stays shut."
INSTRUCTIONS = "Say what to do."
SHOWN = PlannerExample(
    task="Open the bag.", trajectory=Trajectory(items=(Action(content=WRONG, step=1),))
)
TASKS = tuple(f"{colour} {thing}" for colour in COLOURS for thing in THINGS)


class Keys:
    """A door, which its key opens."""

    name = "keys"
    instructions = "Open it."
    allowed_actions = ("[answer] key", "[answer] force")
    planner_examples = (SHOWN,)
    reflector_examples = (ReflectorExample(context=SHOWN, reflection="Read the label at once."),)

    def __init__(self, task: TaskRef) -> None:
        self._task = task.task

    def reset(self, seed: int) -> str:
        """Say what to open."""
        del seed
        return f"Open the {self._task}."

    def step(self, action: str) -> StepResult:
        """Do nothing: all is in the answer."""
        del action
        return StepResult(observation="Nothing happens.")

    def evaluate(self, answer: str | None) -> Evaluation:
        """See whether it opens."""
        correct = answer == "key"
        return Evaluation(reward=float(correct), correct=correct, feedback="" if correct else TOLD)


def plan(body: Body) -> Scripted:
    """Plan as a frozen model would: with a good reflection the key, else force."""
    prompt = body["messages"][-1]["content"]
    lines = [line.removeprefix("- ") for line in prompt.splitlines() if line.startswith("- ")]
    return Scripted(RIGHT if any(map(is_good, lines)) else WRONG)


def prompts() -> list[str]:
    """List the prompts that the reflector is asked with, one for each task."""
    how = ProceduralMemory(
        episode_limit=1,
        step_limit=1,
        allowed_actions=Keys.allowed_actions,
        planner_instructions=Keys.instructions,
        reflector_instructions=INSTRUCTIONS,
    )
    examples = EpisodicMemory(
        planner_examples=Keys.planner_examples, reflector_examples=Keys.reflector_examples
    )
    tried = Trajectory(items=(Action(content=WRONG, step=1),))
    return [
        reflector_prompt(how, examples, f"Open the {task}.", tried, 0.0, TOLD) for task in TASKS
    ]


class World(NamedTuple):
    """A folder of artifacts, the environment of workers, and how to start one and type."""

    folder: Path
    environment: dict[str, str]
    port: int

    def worker(self) -> Any:
        """Start a worker of every queue, once one that was killed has left its port."""
        assert any(is_free(self.port) for _ in patiently())
        log = self.folder / "worker.log"
        queues, keys = "mull,llm,tools,train", "tests.training.keys"
        address = f"127.0.0.1:{self.port}"
        options = ("--queues", queues, "--environments", keys, "--reflector-address", address)
        return forks.start(["worker.py", *options], self.environment, log, log)

    def type(self, *words: str) -> Any:
        """Run a command to its end."""
        given = ["--json"]
        if words[0] in {"train", "retroformer"}:
            instructions = str(self.folder / "instructions")
            given += ["--reflector-instructions", instructions, "--max-output-tokens", "40"]
        for _ in patiently(0.5):
            ended = forks.run(
                "starter.py", *words, *given, environment=self.environment, seconds=2 * PATIENCE
            )
            if ended.returncode != 3:
                return ended
        raise RuntimeError((self.folder / "worker.log").read_text())

    def train(self, identity: str, *more: str) -> Any:
        """Train by `mull train` on half of the tasks."""
        return self.type(
            "train", "--env", "keys", "--tasks", str(self.folder / "tasks"), "--rollouts", "2",
            "--reflector", "reflector/base", "--base-model", "base", "--id", identity,
            *more,
        )  # fmt: skip


@contextmanager
def made(folder: Path, environment: Mapping[str, str]) -> Iterator[World]:
    """Make a folder of artifacts, with a base model that reflects well about every other time."""
    port = free_port()
    build(folder / "base", asked=prompts(), batch=8)
    (folder / "instructions").write_text(INSTRUCTIONS)
    (folder / "tasks").write_text("".join(f"{task}\n" for task in TASKS[: len(TASKS) // 2]))
    with ScriptedEndpoint([plan] * 10_000) as endpoint:
        own = {
            "MULL_MODEL": "openai/scripted",
            "OPENAI_API_BASE": endpoint.url,
            "OPENAI_API_KEY": "sk-secret",
            "MULL_REFLECTORS": f"http://127.0.0.1:{port}/v1",
            "MULL_ARTIFACTS": str(folder),
        }
        yield World(folder, {**environment, **own}, port)
