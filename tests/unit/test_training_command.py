"""`retroformer` and `train`: what is typed arrives in the workflow's one input."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import Planned, RetroformerTrainingRequest, Training
from tests.unit.conftest import Typed

Type = Callable[..., Typed]
CHOICE = "retroformer --env mine --task t1 --reward-model r/reward_model"
TRAINING = "train --env mine --reflector hosted_vllm/base --base-model base --tasks"


def training(typed: Type, folder: Path, tasks: str, options: str = "") -> Typed:
    """Type `train` with a file of these tasks."""
    file = folder / "tasks.jsonl"
    file.write_text(tasks)
    return typed(*TRAINING.split(), str(file), *options.split())


def test_a_reward_model_chooses(typed: Type) -> None:
    """All that a Retroformer run takes has its option."""
    ended = typed(*CHOICE.split(), "--reflector", "hosted_vllm/r", "--reflection-tries", "5")

    assert ended.code == 0
    assert ended.request == RetroformerRequest(
        environment="mine", task="t1", reward_model="r/reward_model", reflector="hosted_vllm/r",
        reflection_tries=5,
    )  # fmt: skip


def test_a_training_learns_from_scripts_only_where_it_is_told_to(
    typed: Type, tmp_path: Path
) -> None:
    """Its rollouts are told so, too."""
    plain, told = (
        training(typed, tmp_path, "1\n", option).request
        for option in ("", "--keep-script-verdicts")
    )

    state = Training(request=told, workflow_id="w", execution="e")
    assert (plain.keep_script_verdicts, told.keep_script_verdicts) == (False, True)
    assert state.rollout(Planned(0, 1)).keep_script_verdicts


def test_a_training_reads_the_names_of_its_tasks(typed: Type, tmp_path: Path) -> None:
    """Nothing else of the file is in the request; RUN stands for the run's own id."""
    tasks = '{"task_id": "1", "answer": "secret"}\n2\n'
    options = "--method kto --id first --tuned hosted_vllm/RUN"

    ended = training(typed, tmp_path, tasks, options)

    assert ended.code == 0
    assert ended.request == RetroformerTrainingRequest(
        environment="mine", tasks=("1", "2"), reflector="hosted_vllm/base", base_model="base",
        tuned="hosted_vllm/first", method="kto",
    )  # fmt: skip


def test_a_file_of_code_tasks_is_read_by_the_worker(typed: Type, tmp_path: Path) -> None:
    """Its path is in the request, since a task of code is more than its name."""
    request = training(typed, tmp_path, '{"task_id": "HumanEval/0"}\n', "--env code").request

    assert (request.tasks, request.task_file) == (("HumanEval/0",), str(tmp_path / "tasks.jsonl"))


def test_only_a_folder_is_looked_for_in_the_folder_of_models(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toy lies elsewhere, so that an estimate of it needs no more than torch."""
    monkeypatch.delenv("MULL_ARTIFACTS", raising=False)
    monkeypatch.setattr("commands.retroformer.find_spec", lambda _: None)
    ended = [
        training(typed, tmp_path, "1\n", f"--estimate --base-model {base}")
        for base in ("mine", "toy")
    ]

    assert [one.code for one in ended] == [2, 2]
    assert "has it (where there is none, make one)" in ended[0].err
    assert "worked out on this machine: pip install '.[train]'" in ended[1].err


@pytest.mark.parametrize(
    ("tasks", "options", "said"),
    [
        ("1\n", "--tuned hosted_vllm/RUN", "give the run's own id with --id"),
        ("1\n", "--id mine --tuned reflector/other --control",
         "--tuned must end in the run's id, as reflector/mine"),
        ("1\n", "--method sft", "sft"),
        ("1\n", "--rollouts 0", "--rollouts"),
        ("1\n", "--learning-rate nan", "--learning-rate"),
        # Twice it would be tried with other seeds, and kept once.
        ("1\n2\n1\n", "", "has the task 1 more than once"),
        ("\n".join(map(str, range(501))), "", "500"),
        ("1\n", "--estimate", "set MULL_ARTIFACTS to the folder of models, as the worker"),
    ],
)  # fmt: skip
def test_wrong_usage_is_said(
    typed: Type,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tasks: str,
    options: str,
    said: str,
) -> None:
    """Exit code 2, and nothing is started."""
    monkeypatch.delenv("MULL_ARTIFACTS", raising=False)

    ended = training(typed, tmp_path, tasks, options)

    assert (ended.code, ended.request) == (2, None)
    assert said in ended.err
