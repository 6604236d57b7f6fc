"""S and T(S): the first state, and every edge of the source's section 2.3."""

import pytest

from mull.multipath.state import Critique, Node, Passage, State, transition
from mull.multipath.suite import Failure

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
    ("after", "state", "leads_to", "reason"),
    [
        ("retrieve", {}, "route", "no documents were given, or none matched"),
        ("retrieve", {"documents": (PASSAGE,)}, "route", "1 passage retrieved"),
        ("route", {"mode": "research"}, "generate_report", "the path is research"),
        ("route", {"mode": "code"}, "generate_code", "the path is code"),
        ("route", {"mode": None}, "unrouted", "could not choose"),
        ("generate_report", {"revisions": 2}, "reflect_on_report", "draft 2 is written"),
        ("generate_report", {"revisions": 3}, "reflect_on_report", "draft 3 is written"),
        ("reflect_on_report", {"revisions": 1}, "consistent", "nothing to fix"),
        ("reflect_on_report", {"revisions": 3}, "consistent", "nothing to fix"),
        ("reflect_on_report", {"suggestions": ("idea",)}, "consistent", "nothing to fix"),
        (
            "reflect_on_report",
            {"revisions": 2, "critiques": (ISSUE, OTHER)},
            "generate_report",
            "2 critiques to fix",
        ),
        (
            "reflect_on_report",
            {"revisions": 3, "critiques": (ISSUE,)},
            "max_revisions",
            "1 critique left after 3 drafts",
        ),
        (
            "reflect_on_report",
            {"revisions": 4, "critiques": (ISSUE,)},
            "max_revisions",
            "1 critique left after 4 drafts",
        ),
        ("generate_code", {"revisions": 1}, "test_code", "draft 1 is written"),
        ("generate_code", {"revisions": 3}, "test_code", "draft 3 is written"),
        ("test_code", {"revisions": 1}, "passed", "every test passes"),
        ("test_code", {"revisions": 3}, "passed", "every test passes"),
        ("test_code", {"revisions": 2, "error": WRONG}, "generate_code", "f(2) is 3, not 4"),
        ("test_code", {"revisions": 3, "error": WRONG}, "max_revisions", "after 3 drafts"),
        ("test_code", {"revisions": 4, "error": WRONG}, "max_revisions", "after 4 drafts"),
    ],
)
def test_the_edges(after: Node, state: dict[str, object], leads_to: str, reason: str) -> None:
    """With R_max = 3 each node leads where section 2.3 says, and a reason counts what there is."""
    step = transition(after, State.model_validate({"prompt": "p", **state}), 3)

    assert (step.node or step.ending) == leads_to
    assert reason in step.reason
