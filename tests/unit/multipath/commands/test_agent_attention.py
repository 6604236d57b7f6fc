"""What a reader of the agent's result is told before all else."""

import pytest

from commands.rendering.multipath.hints import module_hint
from commands.rendering.multipath.results import flags
from reflection.multipath import people
from reflection.multipath.outcome import result
from reflection.multipath.state import Mode
from reflection.multipath.suite import Failure, Suite, TestFile
from tests.unit.multipath.commands.agent_runs import START, routed, write


def test_a_text_that_was_cut_names_the_option() -> None:
    """Either limit may have cut it, and one of them can be raised."""
    run = routed("research")
    write(run, "Kafka keeps", cut=True)
    run.settle("finished_by_person", "finished by Ann", START, "Ann")

    said = "at the model's limit (--max-output-tokens), or at what a result can hold"
    assert f"the text was cut: {said}" in flags(result(run))


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("code", "nobody tested what a person wrote"),
        ("research", "nobody reflected on what a person wrote"),
    ],
)
def test_what_a_person_wrote_is_said_to_be_unchecked(mode: Mode, said: str) -> None:
    """It is not open, and yet nobody looked at it."""
    run = routed(mode)
    write(run, "draft")
    people.replace(run, "mine", "ann", START)
    run.settle("replaced_by_person", "replaced by ann", START, "ann")

    assert flags(result(run))[0] == said


@pytest.mark.parametrize(
    ("message", "tests", "said"),
    [
        ("ModuleNotFoundError: No module named 'pandas'", None, "no module pandas in the sandbox"),
        ("No module named 'pandas.core'", "import numpy, pandas\n", "the tests import pandas"),
        ("No module named 'add'", "from add import add\n", "the code is the module `solution`"),
        ("No module named 'tkinter'", None, None),
        ("it returned 99, not 3", None, None),
    ],
)
def test_a_module_that_is_missing_comes_with_a_hint(
    message: str, tests: str | None, said: str | None
) -> None:
    """Which option lets the code import it, and how tests of the user's import the code."""
    file = tests and TestFile(name="test_add.py", text=tests)
    suite = Suite(origin="user", kind="pytest", file=file or None)

    hint = module_hint(Failure(message=message), suite)

    assert (said in hint and "--packages" in hint) if said else hint == ""
