"""A finished run of the agent, as the terminal shows it."""

import pytest
from rich.cells import cell_len

from commands.rendering.multipath import (
    NodesLive,
    decisions_table,
    print_details,
    print_progress,
    print_review,
)
from reflection.multipath import people
from reflection.multipath.loop import Run
from reflection.multipath.outcome import result
from reflection.multipath.result import MultiPathResult, Routing
from reflection.multipath.state import Critique, Passage
from reflection.multipath.suite import Suite, TestFile, TestOutcome
from tests.unit.critique.shown import console, written
from tests.unit.multipath.commands.agent_runs import (
    CASES,
    PASSAGES,
    START,
    UNCLEAR,
    UNSUPPORTED,
    broken,
    coded,
    failing,
    researched,
    routed,
    standing,
    verdict,
    write,
)

HOSTILE = "[red]x[/red] :smile: \x1b[31m\x07 [/nothing] ` ```"


def details(ended: MultiPathResult, width: int = 100) -> str:
    on = console(width)
    print_details(on, ended)
    return written(on)


def hostile(mode: str) -> Run:
    """Every text that comes from models, people, documents and callers is hostile."""
    passage = Passage(id="x", source=HOSTILE, first_line=1, last_line=2, score=1, text=HOSTILE)
    failed = TestOutcome(test=HOSTILE, passed=False, expected=HOSTILE, got=HOSTILE, message=HOSTILE)
    error = broken(failed).model_copy(update={"traceback": HOSTILE, "status": HOSTILE})
    report = verdict(False).model_copy(update={"outcomes": (failed,), "error": error})
    critique = Critique(aspect="person", advice=HOSTILE, sentence=HOSTILE, author=HOSTILE)
    if mode == "code":
        run = coded([report], prompt=HOSTILE)
    else:
        run = researched([[critique]], [HOSTILE], prompt=HOSTILE, passages=(passage,))
    run.routing = Routing(mode=run.state.mode, reason=HOSTILE, chosen_by="model")
    write(run, HOSTILE, author=HOSTILE, model=HOSTILE)
    run.warn(HOSTILE)
    people.replace(run, HOSTILE, HOSTILE, START)
    run.settle("replaced_by_person", HOSTILE, START, HOSTILE)
    return run


def test_the_result_of_a_research() -> None:
    """Why it ended, its path, every draft with its K, its sources, and what each part cost."""
    shown = details(result(researched([[UNSUPPORTED, UNCLEAR], []], ["See it as a queue."])))

    assert shown.splitlines() == [
        "stopped  the reflection found nothing to mend (consistent)",
        "path     research: it asks for a comparison",
        "drafts   #  origin     found        chars  model",
        "         ─────────────────────────────────────────────────",
        "         1  generated  2 critiques     32  openai/gpt-test",
        "         2  refined    consistent      32  openai/gpt-test",
        (
            'draft 1  citation, [1], at "Kafka deletes records after a day [1].":'
            " The passage does not say so."
        ),
        "         clarity: Say which release is meant.",
        "sources  [1]  kafka.md:3-9",
        "         [2]  papers/pulsar.pdf, page 4:1",
        "idea     See it as a queue.",
        "usage    generating  1 call, 100 tokens in and 200 out, cost $0.0010",
        "         evaluating  1 call, 50 tokens in and 10 out, cost $0.0010",
        "         revising    1 call, 100 tokens in and 200 out, cost $0.0010",
        "         in all      3 calls, 250 tokens in and 410 out, cost $0.0030",
        "model    openai/gpt-test",
    ]


def test_the_result_of_code() -> None:
    """Each test of the kept draft, and where the tests are from."""
    shown = details(result(coded([verdict(True, False, False), verdict(True, True, True)])))

    assert "1  generated  1 of 3 tests pass" in shown
    assert "2  refined    3 of 3 tests pass" in shown
    assert (
        "tests    3 tests, the model's own\n"
        "         passed  add(1, 2) is 3\n"
        "         passed  add(0, 0) is 0\n"
        "         passed  add(-1, 1) is 0\n"
    ) in shown


def test_critiques_that_remain_are_said_to_be_open() -> None:
    """A report that R_max ended names each critique, its sentence and its source."""
    shown = details(result(researched([[UNSUPPORTED], [UNSUPPORTED]], max_revisions=2)))

    assert "attention  the result is open: 1 critique remains" in shown
    assert (
        'critique   citation, [1], at "Kafka deletes records after a day [1].":'
        " The passage does not say"
    ) in shown


def test_an_error_that_remains_is_said_to_be_open() -> None:
    """Code that a test still fails shows the test, what was expected, and its own frames."""
    shown = details(result(coded([verdict(True, False, True)], max_revisions=1)))

    assert "attention  the result is open: a test still fails: it returned 99, not 0" in shown
    assert "error      it returned 99, not 0\n" in shown
    assert "           expected  0\n           got       99\n" in shown
    assert '             File "main.py", line 2, in add' in shown
    assert "           failed  add(0, 0): expected 0, got 99" in shown


def test_what_nobody_checked_is_open() -> None:
    """A draft without a reflection or a test is not taken for one without faults."""
    run = routed("research")
    write(run, "Kafka keeps a log [1].")
    run.settle("reflection_failed", "the judge gave no reply", START)

    shown = details(result(run))

    assert "attention  the result is open: nobody reflected on the report" in shown
    assert "1  generated  not reflected on" in shown


def test_a_prompt_that_fits_neither_path_names_the_option() -> None:
    """There is no result, and the way to one is told."""
    shown = details(result(routed(None)))

    said = "attention  no path could be chosen for sure: give --mode research or --mode code"
    assert said in shown
    assert "(unrouted)" in shown


def test_a_run_that_ended_before_a_draft_says_so() -> None:
    """Nothing is shown in the place of a report that was never written."""
    run = routed("research")
    run.stop("budget", "90 of 100 tokens are spent", START)

    shown = details(result(run))

    assert "attention  there is no report" in shown


def test_the_code_that_passes_most_is_said_to_be_kept() -> None:
    """An earlier draft that is better than the last one is given, and the user is told."""
    reports = [verdict(True, True, False), verdict(False, False, True)]

    shown = details(result(coded(reports, max_revisions=2)))

    assert "attention  the result is open: a test still fails: it returned 99, not 0" in shown
    assert "draft 1 is given: 2 of 3 tests pass, and no later one is better" in shown


def test_a_quarantined_test_is_reported() -> None:
    """A test of the model's own that no draft passes stands apart from what is believed."""
    shown = details(result(coded([verdict(True, False, True)] * 3)))

    assert "1 test of the model's own that no draft passes: not believed" in shown
    assert "quarantined  add(0, 0): expected 0, got 99" in shown


def test_tests_beside_the_code_are_said_to_be_forgeable() -> None:
    """A user's own file runs where the code could forge its verdict."""
    file = TestFile(name="test_add.py", text="def test_add(): ...")
    suite = Suite(origin="user", kind="pytest", file=file)

    shown = details(result(coded([verdict(True)], suite)))

    assert "test_add.py, the user's own, run beside the code, which could forge their" in shown


def test_many_tests_are_cut_to_those_that_fail_first() -> None:
    """Of 20 tests twelve are shown, and how many more there are."""
    fine = [TestOutcome(test=f"add({n}, 0)", passed=True) for n in range(19)]
    report = verdict(True, True).model_copy(update={"outcomes": (*fine, failing(CASES[0]))})

    shown = details(result(coded([report], max_revisions=1)))

    assert shown.index("failed  add(1, 2)") < shown.index("passed  add(0, 0)")
    assert "passed  add(10, 0)" in shown
    assert "add(11, 0)" not in shown
    assert "and 8 more tests" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "run",
    [
        researched([[UNSUPPORTED, UNCLEAR]] * 3),
        coded([verdict(True, False, True)] * 5),
        routed(None),
        hostile("research"),
        hostile("code"),
    ],
    ids=["research", "code", "unrouted", "hostile research", "hostile code"],
)
def test_it_fits_the_width(width: int, run: Run) -> None:
    """No line is wider than the terminal."""
    on = console(width, terminal=True)

    NodesLive(on, "agent-kafka").end(result(run))
    print_details(on, result(run))
    print_progress(on, standing(run), run.decisions)
    print_review(on, standing(run))
    on.print(decisions_table(run.decisions))

    assert all(cell_len(line) <= width for line in written(on).splitlines())


@pytest.mark.parametrize("mode", ["research", "code"])
def test_no_text_from_outside_acts_on_the_terminal(mode: str) -> None:
    """Markup, emoji codes and escapes of models, people and documents are shown as they are."""
    run = hostile(mode)
    on = console(200)

    NodesLive(on, "agent-kafka").end(result(run))
    print_details(on, result(run))
    print_review(on, standing(run))

    assert written(on).count("[red]x[/red] :smile: ␛[31m␇ [/nothing]") >= 5
    assert "\x1b" not in written(on)
    assert "\x07" not in written(on)


def test_no_passage_is_shown_in_full() -> None:
    """The terminal says where a source stands, and not what it says."""
    shown = details(result(researched([[]])))

    assert PASSAGES[0].source in shown
    assert PASSAGES[0].text not in shown
