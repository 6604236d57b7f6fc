"""Problems of HumanEval through the whole agent, in a real sandbox: `bench.human_eval` has all."""

import pytest
from temporalio.client import Client

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits
from tests.activities.code_tests.problems import PROBLEMS, Problem
from tests.conftest import STRICT
from tests.workflows.multipath.repairing import solve_all


@pytest.mark.parametrize(
    ("tests", "broken", "problems"),
    [
        ("script", "another type", PROBLEMS[::40]),
        ("pytest", "off by one", PROBLEMS[1:160:80]),
        ("prompt", "no Python", PROBLEMS[2:160:80]),
    ],
)
async def test_a_broken_solution_is_repaired(
    client: Client, tests: str, broken: str, problems: tuple[Problem, ...]
) -> None:
    """It passes after exactly two drafts, and E of the first one says what is wrong."""
    sandbox = ProcessSandbox(Bubblewrap.find(), Limits(), at_once=4)

    runs = await solve_all(client, sandbox, problems, tests, broken, at_once=1, **STRICT)

    for each in runs:
        assert each.repaired, each.problem.name
        assert each.result.suite is not None
        assert each.result.suite.entry == each.problem.entry
        assert each.result.output == each.problem.solution.strip("\n") + "\n"
        assert each.first is not None
        assert each.first.test or "SyntaxError" in each.first.message
