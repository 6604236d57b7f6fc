import re
from pathlib import Path

import pytest

from activities.environments import puzzles
from activities.environments.port import TaskError, TaskRef
from activities.environments.puzzles import ONLY_ANSWER, Puzzles

# A solution of entry 0 by seed 3.
COUNTDOWN = "82 + 20 + 67 - 50"
# Some of those whose scorers evaluate the answer, by Python or by sympy.
EVALUATING = (
    "countdown",
    "n_queens",
    "polynomial_multiplication",
    "simple_integration",
    "spiral_matrix",
)


def puzzle(task: str, seed: int = 3) -> tuple[Puzzles, str]:
    made = Puzzles(TaskRef(environment="puzzles", task=task, seed=seed))
    return made, made.reset(seed)


def test_right_and_wrong() -> None:
    """The right answer is worth 1 and correct, a wrong one and none are worth nothing."""
    made, question = puzzle("chain_sum:2")
    terms = re.findall(r"[+-]?\d+", question.replace("+ ", "+").replace("- ", "-"))
    right = sum(int(term) for term in terms)

    assert "arithmetic problem" in question
    assert made.step("think").observation == ONLY_ANSWER
    found = made.evaluate(f" {right}\n")
    assert (found.reward, found.correct) == (1.0, True)
    assert made.evaluate(f"<answer>{right}</answer>").correct
    wrong = made.evaluate("0")
    assert (wrong.reward, wrong.correct) == (0.0, False)
    assert str(right) not in wrong.feedback
    assert made.evaluate(None).feedback == "No answer was given."


def test_parts_of_a_point() -> None:
    """Parts of a point are a reward, and not correct."""
    made, _ = puzzle("countdown")

    assert made.evaluate(COUNTDOWN).correct
    near = made.evaluate("82 + 20")
    assert (near.reward, near.correct) == (0.05, False)
    assert near.feedback == "The answer is not right: the scorer gives it 0.05 of 1."


@pytest.mark.parametrize("task", ["word_ladder", "isomorphic_strings:4"])
def test_same_seed_same_question(task: str) -> None:
    """A seed makes one question, though the generator follows the order of a set."""
    _, question = puzzle(task)

    assert puzzle(task)[1] == question
    assert puzzle(task, seed=900)[1] != question


@pytest.mark.parametrize("name", EVALUATING)
def test_answers_are_not_run(name: str, tmp_path: Path) -> None:
    """An answer that is a program is wrong, and does not run."""
    made, _ = puzzle(name)
    trace = tmp_path / "ran"

    found = made.evaluate(f"[__import__('pathlib').Path({str(trace)!r}).touch()]")

    assert not found.correct
    assert not trace.exists()


def test_endless_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that can't be worked out is wrong, and the worker goes on."""
    made, _ = puzzle("puzzle24")
    monkeypatch.setattr(puzzles, "SECONDS", 6)

    found = made.evaluate("9**9**9**9")

    assert (found.reward, found.correct) == (0.0, False)
    assert found.feedback == "The answer could not be scored within 6 s."


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("chain_sums", "no dataset 'chain_sums'; it has chain_sum"),
        ("chain_sum:500", "entries 0 to 499, not 500"),
        ("composite", "can't be made by a seed alone"),
    ],
)
def test_no_such_puzzle(task: str, message: str) -> None:
    """A task that the package lacks is refused in words."""
    with pytest.raises(TaskError, match=message):
        puzzle(task)
