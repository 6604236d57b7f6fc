"""What is typed after `reflexion`: the request of a task, the batch of a list, and mistakes."""

import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from activities.environments.tasks import human_eval
from commands import batch
from mull.agents.memory import Action, Observation, Trajectory
from mull.agents.request import ReflexionRequest
from mull.agents.result import Episode, ReflexionResult
from mull.agents.sheet import sheet, success
from mull.run import Usage
from tests.unit.conftest import Typed, typed_app

Type = Callable[..., Typed]
STEPS = {"items": [{"kind": "action", "content": "[answer] 1", "step": 1}]}
EXAMPLE = {"task": "Count to 1.", "trajectory": STEPS}
TYPED: dict[str, dict[str, Any]] = {
    "--strategy none": {"strategy": "none"},
    "--env-seed 3 --seed 5": {"environment_seed": 3, "seed": 5},
    "--episode-limit 2 --step-limit 4": {"episode_limit": 2, "step_limit": 4},
    "--plateau-episodes 0": {"plateau_episodes": 0},
    "--memory m --scope agent": {"memory": "m", "scope": "agent"},
    "--model a --judge b --reflector c": {"model": "a", "judge": "b", "reflector": "c"},
    "--call-timeout 9 --step-timeout 8": {"call_timeout_seconds": 9.0, "step_timeout_seconds": 8.0},
    "--budget-tokens 7 --budget-usd 1": {"budget_tokens": 7, "budget_usd": 1.0},
}


def test_each_option_is_a_field_of_the_request(typed: Type, tmp_path: Path) -> None:
    """What is typed arrives in the workflow's one input, texts and examples from their files."""
    files = {"planner-instructions": "Count.", "reflector-instructions": "Say why."}
    files["planner-examples"] = json.dumps([EXAMPLE])
    files["reflector-examples"] = json.dumps([{"context": EXAMPLE, "reflection": "I guessed."}])
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    named = [word for name in files for word in (f"--{name}", str(tmp_path / name))]
    places = ["--docs", str(tmp_path), "--tasks", str(tmp_path / "planner-examples")]
    words = [word for line in TYPED for word in line.split()]
    task = ("reflexion", "--env", "code", "--task", "a/0")

    whole, least = (typed(*task, *more) for more in ((*words, *named, *places), ()))

    found = whole.request.model_dump()
    wanted = {name: value for fields in TYPED.values() for name, value in fields.items()}
    wanted |= {"docs": places[1], "tasks": places[3]}
    wanted |= {"planner_instructions": "Count.", "reflector_instructions": "Say why."}
    assert (whole.code, least.code) == (0, 0)
    assert {name: found[name] for name in wanted} == wanted
    assert found["planner_examples"][0]["trajectory"]["items"][0]["content"] == "[answer] 1"
    assert found["reflector_examples"][0]["reflection"] == "I guessed."
    assert least.request == ReflexionRequest(environment="code", task="a/0")


def test_every_field_has_its_option() -> None:
    """But for the wait for a review, which no agent makes."""
    command: Any = typer.main.get_command(typed_app())
    options = {one.name.partition("__")[0] for one in command.commands["reflexion"].params}

    assert set(ReflexionRequest.model_fields) - options == {"review_timeout_seconds"}


@pytest.mark.parametrize(
    ("environment", "text", "names", "read"),
    [
        ("code", '{"task_id": "a/0", "prompt": "p", "test": "t"}\n', ["a/0"], True),
        ("documents", '{"_id": "q1", "answer": "Rome"}\n{"id": 7}', ["q1", "7"], True),
        ("code", "HumanEval/3\r\n\r\nHumanEval/5\r\n", ["HumanEval/3", "HumanEval/5"], False),
        ("puzzles", '\ufeff{"task": "sum:1"}\nsum:2', ["sum:1", "sum:2"], False),
        ("mine", '{"id": "x"}', ["x"], False),
    ],
)
def test_of_a_file_only_names_are_taken(
    typed: Type, tmp_path: Path, environment: str, text: str, names: list[str], read: bool
) -> None:
    """The worker reads the tasks of code and documents, where the lines are more than names."""
    file = tmp_path / "tasks"
    file.write_text(text)

    ended = typed("reflexion", "--env", environment, "--tasks", str(file), "--budget-usd", "1")

    given, chosen = ended.planned
    asked = {"environment": environment, **({"tasks": str(file)} if read else {})}
    assert ended.code == 0
    assert given.pages == [[{"id": name, "task": name} for name in names]]
    assert (given.request.max_concurrency, given.request.budget_usd) == (1, 1.0)
    assert given.request.variants[0].request == asked
    assert chosen.workflow_id.startswith(f"reflexion-{environment}-")


def test_the_tasks_of_human_eval(typed: Type) -> None:
    """They are those of the package's file, also where that is given; one of them needs no file."""
    lines = gzip.decompress(human_eval().read_bytes()).splitlines()
    names = [json.loads(line)["task_id"] for line in lines]

    for tasks, asked in (("human-eval", None), (str(human_eval()), str(human_eval()))):
        given, _ = typed("reflexion", "--env", "code", "--tasks", tasks).planned
        assert [item["task"] for page in given.pages for item in page] == names
        assert given.request.variants[0].request.get("tasks") == asked
    one = typed("reflexion", "--env", "code", "--tasks", "human-eval", "--task", "HumanEval/0")
    assert one.request.tasks is None


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ("", None),
        ("--scope task", None),
        ("--scope environment", "evening"),
        ("--scope agent --memory mine", "mine"),
        ("--scope agent --id 'a b'", "c8687a08aa5d6ed2"),
    ],
)
def test_what_a_list_shares(typed: Type, tmp_path: Path, options: str, memory: str | None) -> None:
    """Its tasks share a memory where their scope is wider than a task: by the list's own id."""
    file = tmp_path / "tasks"
    file.write_text("1\n2")
    words = ("reflexion", "--env", "mine", "--tasks", str(file), "--id", "evening")

    given, _ = typed(*words, *shlex.split(options)).planned

    assert given.request.variants[0].request.get("memory") == memory


ONE = "--env mine --task 1"
MISTAKES = [
    ("--env mine", "", "give --task NAME, or --tasks FILE."),
    ("--task 1", "", "--env: missing."),
    ("--tasks FILE", "1", "--env: missing."),
    (f"{ONE} --judge m --episode-limit 3", "", "--episode-limit: at most 2 where"),
    ("--env mine --tasks FILE", " \n", "FILE has no tasks."),
    ("--env mine --tasks FILE", "1\n{secret", "line 2: expected JSON with one of task_id"),
    ("--env mine --tasks FILE", '{"test": "secret"}', "line 1: expected JSON with one"),
    ("--env mine --tasks FILE", '{"id": ["secret"]}', "line 1: expected JSON with one"),
    ("--env mine --tasks FILE --again", "1", "--again is for one task"),
    ("--env mine --tasks FILE --episode-limit 13", "1", "--episode-limit: "),
    ("--env mine --tasks human-eval", "", "--tasks human-eval is for --env code."),
    ("--env mine --tasks gone", "", "--tasks: gone can't be read"),
    (f"{ONE} --planner-examples FILE", "[", "--planner-examples: FILE: "),
    (f"{ONE} --planner-examples FILE", '[{"task": "1"}]', "0.trajectory: missing; expected a"),
    (f"{ONE} --reflector-examples FILE", '[{"context": 1}]', "with context and reflection."),
    (f"{ONE} --planner-examples FILE", "[]", "--planner-examples: "),
    (f"{ONE} --memory 'a b'", "", "--memory: "),
]


@pytest.mark.parametrize(("words", "text", "said"), MISTAKES)
def test_each_mistake_has_its_line(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, text: str, said: str
) -> None:
    """Nothing is started; the option is named, and nothing of a file is quoted."""
    (tmp_path / "FILE").write_text(text)
    monkeypatch.chdir(tmp_path)

    ended = typed("reflexion", *shlex.split(words))

    assert (ended.code, ended.request, ended.planned) == (2, None, None)
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert "secret" not in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--scope agent", "--scope has no effect without --memory"),
        ("--strategy none --memory m", "--memory has no effect with --strategy none"),
        ("--strategy last_episode --reflector m", "--reflector has no effect with"),
    ],
)
def test_what_has_no_effect_is_said(typed: Type, words: str, said: str) -> None:
    """The run is started, with a note."""
    ended = typed("reflexion", *ONE.split(), *words.split())

    assert ended.code == 0
    assert f"Note: {said}" in ended.err


def test_a_batch_of_agents(tmp_path: Path) -> None:
    """A line has a task, by that name alone; the most calls are those of every step."""
    file, wrong = tmp_path / "tasks.jsonl", tmp_path / "wrong.jsonl"
    file.write_text('{"task": "1", "gold": "g"}\n"2"\n')
    wrong.write_text('{"prompt": "1"}\n')
    options = ["--env", "mine", "--episode-limit", "2", "--step-limit", "3", "--judge", "j"]

    given, _ = batch._given(str(file), "reflexion", options, {})
    with pytest.raises(typer.Exit):
        batch._given(str(wrong), "reflexion", options, {})

    assert given.pages == [[{"task": "1", "gold": "g"}, {"task": "2"}]]
    calls = {part.model: part.calls for part in given.forecast.parts}
    assert calls == {None: 2 * (6 + 2), "j": 2 * 4}


def test_success_by_episode() -> None:
    """Each count is of all tasks, one without a result unsolved; hidden tests of those run."""

    def row(made: int | None, solved: int | None, hidden: bool | None = None) -> dict[str, Any]:
        known = {"episode_count": made, "solved_after": solved, "hidden_passed": hidden}
        by = "script" if hidden else "cases"
        return {**known, "best_return": None, "judged": False, "verified_by": by}

    lines = [row(1, 1, True), row(3, 3, False), row(3, None), row(2, 2, True), row(None, None)]
    document, [table] = success(lines)
    none, [empty] = success([row(None, None)])

    assert document["solved_by_episode"] == [1, 2, 3]
    assert [row[:3] for row in table.rows] == [
        ("1 episode", 1, 5), ("2 episodes", 2, 5), ("3 episodes", 3, 5), ("hidden tests", 2, 3),
        ("of them beside the code", 2, 3),
    ]  # fmt: skip
    assert table.title == "Solved"
    assert success([{**lines[0], "judged": True}])[1][0].title == "Solved, as only a model judged"
    assert (none["tasks"], none["solved_by_episode"], empty.rows) == (1, [], ())


ITEMS = (Action(content="go north", step=1), Observation(content="a\nb", step=1))
WON = Episode(
    number=1, trajectory=Trajectory(items=ITEMS), answer=None, ended="done", steps=1,
    episode_return=1.0, correct=True,
)  # fmt: skip
RESULT = ReflexionResult(
    environment="textworld", task="coin:1", task_text="Find it.", strategy="reflexion",
    episode_limit=5, model=None, episodes=(WON,), reflections=(), best=1, judged=False,
    usage=Usage(calls=1), answer=None, status="solved", best_return=1.0, stop_reason="solved",
    stop_explanation="episode 1 solved the task", decisions=(),
)  # fmt: skip


def test_a_game_that_was_won_has_its_actions_as_the_answer() -> None:
    """They are what solved it; an episode that failed without an answer has none."""
    lost = WON.model_copy(update={"correct": False})

    shown = sheet(RESULT)
    failed = sheet(RESULT.model_copy(update={"episodes": (lost,), "status": "no_answer"}))

    assert shown.answer is not None
    assert (shown.answer.content, shown.verdict.tone) == ("go north", "good")
    assert "Observation 1: a\nb" in shown.texts[1].content
    assert (failed.answer, failed.verdict.tone) == (None, "bad")


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("So:\n\n  ```py\nx = 1\ny = 2\n  ```\nIt is right.", "x = 1\ny = 2\n"),
        ("x = 1", "x = 1"),
        ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
        ("```python\nx = 1", "```python\nx = 1"),
    ],
)
def test_code_is_printed_without_its_fence(answer: str, printed: str) -> None:
    """Where it is one block, its file can be run; the result has the answer as it came."""
    coded = sheet(RESULT.model_copy(update={"environment": "code", "answer": answer}))
    words = sheet(RESULT.model_copy(update={"answer": answer}))

    assert coded.answer is not None
    assert words.answer is not None
    assert (coded.answer.content, coded.answer.kind) == (printed, "code")
    assert words.answer.content == answer
