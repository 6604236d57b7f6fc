"""S: what each node's step makes of it, as in the source's sections 2.1 and 2.2."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from reflection.multipath import state as states
from reflection.multipath.state import Critique, Passage, State
from reflection.multipath.suite import Failure

WRONG = Failure(message="f(2) is 3, not 4", test="f(2)")
ISSUE = Critique(aspect="clarity", advice="say which year")
OTHER = Critique(aspect="citation", advice="source 1 says 1931", sentence="In 1932.", cited=1)
PASSAGE = Passage(id="a", source="a.md", first_line=1, last_line=2, score=1.0, text="In 1931.")


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


def test_a_state_is_frozen() -> None:
    """Nothing changes a state in place."""
    state = State(prompt="p")

    with pytest.raises(ValidationError, match="frozen"):
        state.revisions = 1  # type: ignore[misc]


def test_a_state_goes_through_json() -> None:
    """A state that went through a payload is the same."""
    state = State(prompt="p", documents=(PASSAGE,), critiques=(OTHER,), error=WRONG, mode="code")

    assert State.model_validate_json(state.model_dump_json()) == state
