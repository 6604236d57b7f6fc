"""Whether code is right: values compared, E, and which tests are believed."""

import pytest

from mull.multipath.cases import read_literal
from mull.multipath.request import Limits
from mull.multipath.suite import Case, Failure, Suite, SuiteOrigin, TestOutcome, TestReport
from mull.multipath.verdict import (
    SILENT,
    Answer,
    ProgramEnd,
    believed,
    bounded,
    brief,
    first_failure,
    judge,
    quarantine,
    same,
    stopped,
)
from tests.unit.multipath.agent_runs import draft

CALLS = ("f(0)", "f(1)", "f(2)")
CASES = tuple(Case(call=call, expected="4") for call in CALLS)


def suite(origin: SuiteOrigin = "model") -> Suite:
    return Suite(origin=origin, kind="cases", cases=CASES, entry="f")


def report(passes: str, status: str = "ok") -> TestReport:
    """One letter for each case: p passes, f fails, and - gave no result."""
    outcomes = tuple(
        TestOutcome(test=call, passed=letter == "p", message=f"{call} fails")
        for call, letter in zip(CALLS, passes, strict=True)
        if letter != "-"
    )
    error = first_failure(outcomes)
    if error is None and "-" in passes:
        error = stopped(ending(status), CALLS[passes.index("-")])
    return TestReport(
        outcomes=outcomes, passed=passes.count("p"), total=3, error=error, forgeable=False,
        status=status, backend="scripted",
    )  # fmt: skip


def ending(status: str, signal: int | None = None) -> ProgramEnd:
    return ProgramEnd(status=status, exit_code=3, signal=signal, limits=Limits(wall_seconds=2.5))


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        ("timeout", "the code ran for 2.5 s and was stopped", "timeout"),
        ("cpu_limit", "the code used 10 s of CPU time and was stopped", "cpu_limit"),
        ("memory_limit", "the code needed more than 512 MB of memory and was stopped",
         "memory_limit"),
        ("output_limit", "the code printed more than 1,000,000 bytes and was stopped",
         "output_limit"),
        ("disk_limit", "the code wrote more than 64 MB and was stopped", "disk_limit"),
        ("killed_by_signal", "the code was ended by the signal 11", "killed_by_signal"),
        ("exited_early", "the code ended the process before its tests were over", "exited_early"),
        ("error", "the code ended the process with the exit code 3", None),
        ("ok", SILENT, None),
    ],
)  # fmt: skip
def test_how_a_program_ended_in_words(status: str, message: str, said: str | None) -> None:
    """E names the limit, and the sandbox's word where the program did not end by itself."""
    failure = stopped(ending(status, 11), "f(1)")

    assert failure == Failure(message=message, test="f(1)", status=said)


@pytest.mark.parametrize("text", ["a" * 100_000, "\x00" * 100_000, "針" * 50_000, "\ud800" * 9_000])
def test_e_takes_at_most_8_kb(text: str) -> None:
    """Each part of E is cut; of a traceback the end is kept, which says most."""
    failure = bounded(
        Failure(message=text, test=text, expected=text, got=text, traceback=f"{text}end")
    )

    assert len(failure.model_dump_json().encode()) <= 8_000
    assert failure.traceback
    assert failure.traceback.endswith("end")
    assert failure.message.endswith("…")


def test_outcomes_take_what_a_history_can_hold() -> None:
    """Of many outcomes those that fail are kept first of all, in their order, and cut."""
    outcomes = [
        TestOutcome(test=f"test {n}", passed=n < 100, message="m" * 9_000) for n in range(200)
    ]

    kept = brief(outcomes)

    assert [each.test for each in kept] == [f"test {n}" for n in range(100, 150)]
    assert sum(len(each.model_dump_json()) for each in kept) < 24_000
    assert kept[0].message == "m" * 300 + "…"


@pytest.mark.parametrize(
    ("reports", "last", "doubted"),
    [
        (["fpp", "fpp"], False, []),
        (["fpp", "fpp"], True, ["f(0)"]),
        (["fpp", "fpp", "fpp"], False, []),
        (["fpp", "fpp", "fpp"], True, ["f(0)"]),
        (["fff", "fpf", "fpf"], False, []),
        (["fff", "fpf", "fpf"], True, ["f(0)", "f(2)"]),
        (["fff", "fff", "fff"], True, []),
        (["fpp", "pfp", "ffp"], True, []),
        (["fpp", "fpp", "fpp", "fpp", "pff"], True, []),
        (["fpp", "---", "fpp"], True, []),
        (["fp-", "fp-", "fp-"], False, []),
        (["fp-", "fp-", "fp-"], True, ["f(0)"]),
        ([], True, []),
        (["fpp"], True, []),
    ],
)
def test_a_test_that_every_draft_failed_is_disputed(
    reports: list[str], last: bool, doubted: list[str]
) -> None:
    """Every draft up to the last ran it and failed it, two at least; never all tests.

    Tests of the user and examples of the prompt are always believed.
    """
    tested = [draft(n, "code", report=report(passes)) for n, passes in enumerate(reports)]

    assert [found.test for found in quarantine(tested, suite(), last=last)] == doubted
    assert quarantine(tested, suite("user"), last=last) == ()
    assert quarantine(tested, suite("prompt"), last=last) == ()


@pytest.mark.parametrize(
    ("passes", "status", "message"),
    [
        ("ppp", "ok", None),
        ("fpp", "ok", None),
        ("ffp", "ok", "f(1) fails"),
        ("fp-", "timeout", "the program ended before all tests gave a result"),
        ("---", "timeout", "the code ran for 2.5 s and was stopped"),
    ],
)
def test_a_quarantined_test_is_not_believed(passes: str, status: str, message: str | None) -> None:
    """E is that of the other tests; a program that did not end stays wrong."""
    error = believed(report(passes, status), [TestOutcome(test="f(0)", passed=False)])

    assert (error.message if error else None) == message


def test_a_disputed_test_says_what_each_draft_gave() -> None:
    """A value, or what was said of there being none, and never more than a line of it."""
    answers = [Answer(value="9"), Answer(message="raises KeyError: 1"), Answer(value="'a'" * 99)]
    drafts = []
    for index, answer in enumerate(answers):
        outcomes = judge(CASES, {0: answer, 1: Answer(value="4")})
        found = report("fpp").model_copy(update={"outcomes": outcomes})
        drafts.append(draft(index, "code", text=str(index), report=found))

    (disputed,) = quarantine(drafts, suite(), last=True)

    assert disputed.given[:2] == ("draft 1 gave 9", "draft 2 raises KeyError: 1")
    assert disputed.given[2].startswith("draft 3 gave 'a'")
    assert len(disputed.given[2]) < 120
    assert disputed.words.startswith("f(0), expected 4: draft 1 gave 9, draft 2 raises KeyError")


# Python reads it, and refuses to write it with as many digits as it takes.
HUGE = "0x" + "f" * 5_000


SAME = [
    *(("4", "4"), ("4", "4.0"), ("0.3", "0.30000000000000004"), ("0.0", "-0.0"), ("0", "0.0")),
    *(("1.05e-34", "1.0500000000000001e-34"), ("4", "4+0j"), ("[4]", "[4.0]"), ("1e17", "1e17")),
    *(("float('nan')", "float('nan')"), ("{float('nan')}", "{float('nan')}")),
    *(("float('inf')", "1e999"), ("float('-inf')", "-1e999"), ("1+2j", "1.0000000000001+2j")),
    *(("[1, [2.0, 'a']]", "[1, [2, 'a']]"), ("{(1, 'a'): None}", "{(1, 'a'): None}")),
    *(("{1, 2, 3}", "{3, 2, 1}"), ("{1, 2}", "frozenset({2, 1})"), ("set()", "set()")),
    *(("b'a'", "b'a'"), ("None", "None"), ("1000000.1", "1000000.1000001")),
    ("{'a': 1, 'b': [0.3]}", "{'b': [0.30000000000000004], 'a': 1}"),
]


OTHER = [
    *(("4", "5"), ("4", "None"), ("1", "True"), ("False", "0"), ("'1'", "1"), ("'a'", "b'a'")),
    *(("[1, 2]", "(1, 2)"), ("[1, 2]", "[1]"), ("[1, [2, 3]]", "[1, [2, 4]]"), ("{1}", "{True}")),
    *(("{'a': 1}", "{'a': 2}"), ("{'a': [1]}", "{'a': [None]}"), ("{'a': 1}", "{'b': 1}")),
    *(("{'a': 1}", "{'a': 1, 'b': 1}"), ("{1: 2}", "{True: 2}"), ("{}", "[]"), ("set()", "{}")),
    *(("0.3", "0.300001"), ("1000000.1", "1000000.2"), ("float('nan')", "0.0"), ("1.0", "True")),
    *((value, "1" + "0" * 400) for value in ("1e999", "1.0", "1j", "float('nan')")),
    *(("10000000000000001", "10000000000000002"), ("1" + "0" * 400, "0.5j")),
    *(("1.05e-34", "1.0500001e-34"), ("4e-13", "8e-13"), ("0.0", "2e-12"), ("0", "2e-12")),
    *(("{4}", "{4.000000000001}"), ("{0.0}", "{1e-13}"), ("4e-13+1j", "8e-13+1j")),
    (f"{{{HUGE}: 1}}", f"{{{HUGE}: 2}}"),
]


@pytest.mark.parametrize(
    ("expected", "got", "alike"),
    [*((*pair, True) for pair in SAME), *((*pair, False) for pair in OTHER)],
)
def test_values_are_compared(expected: str, got: str, alike: bool) -> None:
    """Numbers may differ by a rounding error, and dicts and sets have no order."""
    assert same(read_literal(expected), read_literal(got)) is alike
    assert same(read_literal(got), read_literal(expected)) is alike


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        *(("0.0", "1e-12"), ("-0.0", "-1e-13"), ("0j", "1e-13+1e-13j"), ("1.0+0j", "1.0+1e-13j")),
        *(("[0.0, 1]", "[1e-13, 1]"), ("4.0000000001", "4"), ("1e17", "100000000000000001")),
        *(("4.0000000001", "4"), ("0.0", "1e-13"), ("1.0", "1+1e-13j")),
    ],
)
def test_only_what_is_expected_decides_how_exactly(expected: str, got: str) -> None:
    """Next to nothing is 0.0 where that is expected, and 0.0 is not next to nothing.

    Where an integer is expected, a float is that only where it is exactly.
    """
    assert same(read_literal(expected), read_literal(got))
    assert not same(read_literal(got), read_literal(expected))


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "...", "f(2)", "1 + 1", "[x]", "{**{}}", "{[1]: 2}", "__import__('os')"),
        *("float('12')", "float(2)", "frozenset([1])", "'a' 2", "1\x00", "f'{1}'", "-'a'"),
        *("9" * 5_000, "9" * 400 + "+1j", "1" * 10_001, "-" * 9_000 + "1", "[" * 5_000),
    ],
)
def test_what_is_no_literal(text: str) -> None:
    """Names, calls and sums are no literals, nor is what Python can't parse."""
    with pytest.raises(ValueError, match="not a"):
        read_literal(text)
