"""S and T(S): each step of the source's sections 2.1 and 2.2, and every edge of its 2.3."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import get_args

import pytest

from reflection.multipath import state as states
from reflection.multipath.state import Critique, Ending, Mode, Node, Passage, State, transition
from reflection.multipath.suite import Failure

WRONG = Failure(message="f(2) is 3, not 4", test="f(2)")
ISSUE = Critique(aspect="clarity", advice="say which year")
OTHER = Critique(aspect="citation", advice="source 1 says 1931", sentence="In 1932.", cited=1)
PASSAGE = Passage(id="a", source="a.md", first_line=1, last_line=2, score=1.0, text="In 1931.")
MODES: tuple[Mode | None, ...] = ("research", "code", None)


def test_the_first_state() -> None:
    """S begins as in section 2.1: D and K are empty, M is undefined, T_m is "", E none, R_n 0."""
    assert State(prompt="p").model_dump() == {
        "prompt": "p",
        "documents": (),
        "mode": None,
        "output": "",
        "critiques": (),
        "suggestions": (),
        "error": None,
        "revisions": 0,
    }


@pytest.mark.parametrize(
    ("step", "changed"),
    [
        (lambda state: states.retrieved(state, (PASSAGE,)), {"documents": (PASSAGE,)}),
        (lambda state: states.routed(state, "code"), {"mode": "code"}),
        (lambda state: states.generated(state, "new"), {"output": "new", "revisions": 2}),
        (
            lambda state: states.reflected(state, (OTHER,), ("idea",)),
            {"critiques": (OTHER,), "suggestions": ("idea",)},
        ),
        (lambda state: states.reflected(state, (), ()), {"critiques": (), "suggestions": ()}),
        (lambda state: states.tested(state, None), {"error": None}),
    ],
)
def test_a_step_changes_its_own_part(
    step: Callable[[State], State], changed: dict[str, object]
) -> None:
    """Each node's step replaces its part of S, adds to none, and leaves the old state as it was."""
    before = State(prompt="p", critiques=(ISSUE,), suggestions=("old",), error=WRONG, revisions=1)
    was = before.model_copy(deep=True)

    after = step(before)

    assert after == before.model_copy(update=changed)
    assert before == was


def every_state() -> Iterator[State]:
    """All states with up to one document, two critiques, one suggestion and six drafts."""
    for mode, documents, critiques, suggestions, error, revisions in product(
        MODES,
        ((), (PASSAGE,)),
        ((), (ISSUE,), (ISSUE, OTHER)),
        ((), ("idea",)),
        (None, WRONG),
        range(7),
    ):
        yield State(
            prompt="p",
            documents=documents,
            mode=mode,
            output="t",
            critiques=critiques,
            suggestions=suggestions,
            error=error,
            revisions=revisions,
        )


@pytest.mark.parametrize(
    ("after", "state", "node", "ending"),
    [
        ("retrieve", {}, "route", None),
        ("retrieve", {"documents": (PASSAGE,)}, "route", None),
        ("route", {"mode": "research"}, "generate_report", None),
        ("route", {"mode": "code"}, "generate_code", None),
        ("route", {"mode": None}, None, "unrouted"),
        ("generate_report", {"revisions": 1}, "reflect_on_report", None),
        ("generate_report", {"revisions": 3}, "reflect_on_report", None),
        ("reflect_on_report", {"revisions": 1}, None, "consistent"),
        ("reflect_on_report", {"revisions": 3}, None, "consistent"),
        ("reflect_on_report", {"revisions": 1, "suggestions": ("idea",)}, None, "consistent"),
        ("reflect_on_report", {"revisions": 2, "critiques": (ISSUE,)}, "generate_report", None),
        ("reflect_on_report", {"revisions": 3, "critiques": (ISSUE,)}, None, "max_revisions"),
        ("reflect_on_report", {"revisions": 4, "critiques": (ISSUE,)}, None, "max_revisions"),
        ("generate_code", {"revisions": 1}, "test_code", None),
        ("generate_code", {"revisions": 3}, "test_code", None),
        ("test_code", {"revisions": 1}, None, "passed"),
        ("test_code", {"revisions": 3}, None, "passed"),
        ("test_code", {"revisions": 2, "error": WRONG}, "generate_code", None),
        ("test_code", {"revisions": 3, "error": WRONG}, None, "max_revisions"),
        ("test_code", {"revisions": 4, "error": WRONG}, None, "max_revisions"),
    ],
)
def test_the_edges(
    after: Node, state: dict[str, object], node: Node | None, ending: Ending | None
) -> None:
    """With R_max = 3 each node leads where section 2.3 says."""
    step = transition(after, State.model_validate({"prompt": "p", **state}), 3)

    assert (step.node, step.ending) == (node, ending)


def test_nothing_else_decides() -> None:
    """Over all small states T depends on M after `route`, on K and R_n after the reflection, on E
    and R_n after the test, and on nothing after the others.
    """
    decided: dict[tuple[object, ...], set[tuple[Node | None, Ending | None]]] = {}

    for node, state, most in product(get_args(Node), every_state(), range(1, 6)):
        room = state.revisions < most
        based_on = {
            "route": (state.mode,),
            "reflect_on_report": (bool(state.critiques), room),
            "test_code": (state.error is not None, room),
        }.get(node, ())
        step = transition(node, state, most)
        assert (step.node is None) != (step.ending is None)
        assert step.reason
        decided.setdefault((node, *based_on), set()).add((step.node, step.ending))

    assert {key: value for key, value in decided.items() if len(value) > 1} == {}
    assert len(decided) == 3 + 3 + 4 + 4


def worst(node: Node, state: State, mode: Mode) -> State:
    """Take a node's step, with the worst that can come of it."""
    match node:
        case "retrieve":
            return states.retrieved(state, ())
        case "route":
            return states.routed(state, mode)
        case "generate_report" | "generate_code":
            return states.generated(state, "t")
        case "reflect_on_report":
            return states.reflected(state, (ISSUE,), ())
        case "test_code":
            return states.tested(state, WRONG)


@pytest.mark.parametrize("most", range(1, 7))
@pytest.mark.parametrize(
    ("mode", "writes", "checks"),
    [
        ("research", "generate_report", "reflect_on_report"),
        ("code", "generate_code", "test_code"),
    ],
)
def test_the_worst_path(mode: Mode, writes: Node, checks: Node, most: int) -> None:
    """Where nothing ever gets right, R_max drafts are written, the first one counted."""
    state, walked = State(prompt="p"), list[Node]()
    node: Node | None = "retrieve"

    while node is not None:
        walked.append(node)
        state = worst(node, state, mode)
        node = transition(node, state, most).node

    assert walked == ["retrieve", "route", *[writes, checks] * most]
    assert state.revisions == most


@pytest.mark.parametrize(
    ("after", "state", "most", "reason"),
    [
        ("retrieve", {}, 3, "no passage retrieved: no documents were given, or none matched"),
        ("retrieve", {"documents": (PASSAGE,)}, 3, "1 passage retrieved"),
        ("route", {"mode": "research"}, 3, "the path is research"),
        ("generate_report", {"revisions": 2}, 3, "draft 2 is written"),
        ("reflect_on_report", {"critiques": (ISSUE, OTHER)}, 3, "2 critiques to fix"),
        (
            "reflect_on_report",
            {"critiques": (ISSUE,), "revisions": 5},
            3,
            "1 critique left after 5 drafts",
        ),
        (
            "reflect_on_report",
            {"critiques": (ISSUE,), "revisions": 1},
            1,
            "1 critique left after 1 draft",
        ),
        ("test_code", {"error": WRONG}, 3, "f(2) is 3, not 4"),
        ("test_code", {"error": WRONG, "revisions": 3}, 3, "a test still fails after 3 drafts"),
    ],
)
def test_the_reasons(after: Node, state: dict[str, object], most: int, reason: str) -> None:
    """A reason counts what the state has."""
    assert transition(after, State.model_validate({"prompt": "p", **state}), most).reason == reason
