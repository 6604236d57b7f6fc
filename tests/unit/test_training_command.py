"""`retroformer` and `train`: what is typed arrives in the workflow's one input."""

from pathlib import Path
from typing import Any

import pytest
import typer

import starter
from commands import follow, start
from commands.retroformer import retroformer, train
from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import Planned, RetroformerTrainingRequest, Training

CHOICE = ("retroformer", "--env", "mine", "--task", "t1", "--reward-model", "r/reward_model")
TRAINING = ("train", "--env", "mine", "--reflector", "hosted_vllm/base", "--base-model", "base")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Type a command, and return its exit code and what it would start."""
    app = typer.Typer()
    app.command()(retroformer)
    app.command()(train)

    def run(*words: str) -> tuple[int, Any]:
        asked: list[Any] = []
        monkeypatch.setattr(starter, "app", app)
        monkeypatch.setattr("sys.argv", ["mull", *words])
        monkeypatch.setattr(start, "with_client", lambda action: action(None))
        monkeypatch.setattr(follow, "start", lambda _, request, *__: asked.append(request))
        return starter.main(), asked[0] if asked else None

    return run


def test_a_reward_model_chooses(typed: Any) -> None:
    """All that a Retroformer run takes has its option."""
    code, request = typed(*CHOICE, "--reflector", "hosted_vllm/r", "--reflection-tries", "5")

    assert code == 0
    assert request == RetroformerRequest(
        environment="mine", task="t1", reward_model="r/reward_model", reflector="hosted_vllm/r",
        reflection_tries=5,
    )  # fmt: skip


def test_a_training_learns_from_scripts_only_where_it_is_told_to(
    typed: Any, tmp_path: Path
) -> None:
    """Its rollouts are told so, too."""
    file = tmp_path / "tasks.txt"
    file.write_text("1\n")
    plain, told = (
        typed(*TRAINING, "--tasks", str(file), *option)[1]
        for option in ((), ("--keep-script-verdicts",))
    )

    state = Training(request=told, workflow_id="w", execution="e")
    assert (plain.keep_script_verdicts, told.keep_script_verdicts) == (False, True)
    assert state.rollout(Planned(0, 1)).keep_script_verdicts


def test_a_training_reads_the_names_of_its_tasks(typed: Any, tmp_path: Path) -> None:
    """Nothing else of the file is in the request; RUN stands for the run's own id."""
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task_id": "1", "answer": "secret"}\n2\n')

    code, request = typed(
        *TRAINING, "--tasks", str(file), "--method", "kto", "--id", "first",
        "--tuned", "hosted_vllm/RUN",
    )  # fmt: skip

    assert code == 0
    assert request == RetroformerTrainingRequest(
        environment="mine",
        tasks=("1", "2"),
        reflector="hosted_vllm/base",
        base_model="base",
        tuned="hosted_vllm/first",
        method="kto",
    )


def test_a_file_of_code_tasks_is_read_by_the_worker(typed: Any, tmp_path: Path) -> None:
    """Its path is in the request, since a task of code is more than its name."""
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task_id": "HumanEval/0"}\n')
    words = [word if word != "mine" else "code" for word in TRAINING]

    _, request = typed(*words, "--tasks", str(file))

    assert (request.tasks, request.task_file) == (("HumanEval/0",), str(file))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--tuned", "hosted_vllm/RUN"), "give the run's own id with --id"),
        (
            ("--id", "mine", "--tuned", "reflector/other", "--control"),
            "--tuned must end in the run's id, as reflector/mine",
        ),
        (("--method", "sft"), "sft"),
        (("--rollouts", "0"), "--rollouts"),
        (("--learning-rate", "nan"), "--learning-rate"),
    ],
)
def test_wrong_usage_is_said(
    typed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    """Exit code 2, and nothing is started."""
    file = tmp_path / "tasks"
    file.write_text("1\n")

    code, request = typed(*TRAINING, "--tasks", str(file), *more)

    assert (code, request) == (2, None)
    assert said in capsys.readouterr().err


def test_a_task_stands_once(typed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice it would be tried with other seeds, and kept once."""
    file = tmp_path / "tasks"
    file.write_text("1\n2\n1\n")

    assert typed(*TRAINING, "--tasks", str(file)) == (2, None)
    assert "has the task 1 more than once" in capsys.readouterr().err


def test_no_more_tasks_than_a_training_takes(
    typed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """500 are the most, in words."""
    file = tmp_path / "tasks"
    file.write_text("".join(f"{number}\n" for number in range(501)))

    code, _ = typed(*TRAINING, "--tasks", str(file))

    assert code == 2
    assert "500" in capsys.readouterr().err
