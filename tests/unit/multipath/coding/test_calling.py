"""Which expressions may be tests."""

import pytest

from reflection.multipath.coding.reading.calling import called, calls, case_of
from reflection.multipath.coding.suite import Case


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("f(2)", ("f",)),
        ("round(f(g(2)), 2)", ("f", "g")),
        ("sorted([2, 1])", ()),
        ("f", ()),
        ("f(", ()),
        ("x.f(2)", ()),
    ],
)
def test_the_functions_that_an_expression_calls(text: str, names: tuple[str, ...]) -> None:
    """Functions called by their own names count, and Python's own do not."""
    assert called(text) == names


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("f(2)", True),
        ("list(f(2))", True),
        ("sorted(f(2))", True),
        ("sorted(f(2), key=lambda x: -x)", True),
        ("round(f(2), 2)", True),
        ("str(len(f(2)))", True),
        ("f([x for x in range(3)])", True),
        ("f(1 if 2 > 1 else 0, key=lambda x: x or 4)", True),
        ("g(f(2))", True),
        ("[f(x) for x in range(3)]", False),
        ("(lambda x: f(x))(2)", False),
        ("(lambda x: 4)(f(2))", False),
        ("f(2) == 4", False),
        ("f(2) and 4", False),
        ("f(1) or 4", False),
        ("4 if f(2) else 4", False),
        ("4 in f(2)", False),
        ("not f(2)", False),
        ("[f(1), 4][1]", False),
        ("f(2)[4]", False),
        ("f(2).__eq__(4)", False),
        ("f(2).count(4)", False),
        ("isinstance(f(2), int)", False),
        ("max(f(1), 4)", False),
        ("next(f(1), 4)", False),
        ("sum(f(1), 4)", False),
        ("print(f(2))", False),
        ("list(map(f, [4]))", False),
        ("f(g(2))", True),
        ("f(x)", False),
        ("f(math.pi)", False),
        ("g(2)", False),
        ("f", False),
        ("f(", False),
    ],
)
def test_a_test_uses_nothing_but_what_it_tests(text: str, holds: bool) -> None:
    """An expression with a variable or a module in it would fail whatever the code does."""
    assert calls(text, "f", {"g"}) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Stack().push(1).size()", True),
        ("len(Stack([1]).items)", True),
        ("Stack().__eq__(4)", False),
        ("Stack() == 4", False),
        (f"Stack(){'.top' * 2_000}", False),
    ],
)
def test_a_test_of_a_class_may_use_its_methods(text: str, holds: bool) -> None:
    """What a method of the code's own class gives is the code's, but for Python's own methods."""
    assert calls(text, "Stack") is holds


@pytest.mark.parametrize(
    ("call", "expected", "case"),
    [
        ("f(2)", "4", ("f(2)", "4")),
        ("f(2) == 4", "True", ("f(2)", "4")),
        ("(4 == f(2))", "True", ("f(2)", "4")),
        ("f(2) is None", "True", ("f(2)", "None")),
        ("f(2) == 4", "False", ("f(2) == 4", "False")),
        ("f(2) == g(2)", "True", ("f(2) == g(2)", "True")),
        ("f(2) == 4 == 4", "True", ("f(2) == 4 == 4", "True")),
        ("f(2) != 4", "True", ("f(2) != 4", "True")),
        ("f(", "True", ("f(", "True")),
    ],
)
def test_an_equation_is_taken_by_its_sides(call: str, expected: str, case: tuple[str, str]) -> None:
    """What shall be equal is compared outside, so that its value stays there."""
    assert case_of(call, expected) == Case(call=case[0], expected=case[1])
