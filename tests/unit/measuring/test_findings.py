"""What is said with the numbers of a calibration and of a comparison, and their sheets."""

import json
from typing import Any

import pytest

from commands.html.rendering import page_html
from commands.measuring import calibrate, compare
from commands.measuring.calibrate import JudgePlan, estimate_words
from commands.measuring.compare import MethodPlan, Question
from commands.plans import Findings, Read
from mull.critique.calibration import Example
from mull.critique.estimates import Estimate
from mull.critique.evaluation import Cap, Evaluation
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import Draft, ReflectOnResultResult
from mull.request import Record
from mull.sampling.request import SelfConsistencyRequest
from mull.sheet import Sheet
from tests.unit.measuring.commands import batch_of, run_of

COMPARED = MethodPlan(
    questions=[Question(question=f"{n} times 7?", gold=str(n * 7)) for n in (6, 7)],
    methods=["single", "reflect"],
    reflecting=ReflectOnResultRequest(query="-", judges=("a/b",), seed=0),
    sampling=SelfConsistencyRequest(question="-", answers="number", seed=0),
)


def calibrated(
    scores: list[float | None], judge: str = "a/b", writer: str | None = None
) -> Findings:
    """One judge's scores of drafts that are labelled 1, 0, 1, 0 and so on."""
    examples = [
        Example(query="q", draft=f"d{place}", label=1 - place % 2, writer=writer)
        for place in range(len(scores))
    ]
    plan = JudgePlan(examples, [judge], ReflectOnResultRequest(query="-"), 1, turned=False)
    reads = [
        Read(run_of(place, "judge-1", tokens=10), judged(score))
        for place, score in enumerate(scores)
    ]
    return calibrate.findings(plan, "b", batch_of(*(read.run for read in reads)), reads)


def judged(score: float | None) -> Any:
    evaluation = made(
        Evaluation,
        score=score,
        guardrails=(made(Cap, guardrail="too_short"),) if score == 0.5 else (),
        error=None if score is not None else "no reply in time",
    )
    return made(ReflectOnResultResult, drafts=(made(Draft, evaluation=evaluation),))


def made(kind: type[Record], **fields: Any) -> Any:
    """A record with these fields alone."""
    return kind.model_construct(**fields)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (calibrated([0.9, 0.1], "embedded/toy"), "embedded/toy is the embedded toy model: all"),
        (calibrated([0.9, 0.1]), "2 scored examples, of 2, are few"),
        (calibrated([0.9]), "All labels are on one side of 0.5"),
        (calibrated([0.9, 0.1]), 'No "writer" is given'),
        (calibrated([0.9, 0.1], writer="c/d"), "No judge is the writer of some drafts alone"),
        (calibrated([0.5, 0.5, 0.5]), "a/b scores every draft 0.50"),
        (calibrated([0.5, 0.1]), "Guardrails (too_short) capped 1 score, as in the loop"),
        (calibrated([0.9, None]), "1 evaluation by a/b failed: no reply in time"),
    ],
)
def test_what_is_said_of_a_calibration(found: Findings, said: str) -> None:
    """What a reader of the numbers has to know is on the sheet and in the document."""
    assert any(flag.startswith(said) for flag in found.sheet.flags)
    assert found.document["warnings"] == list(found.sheet.flags)


def cells(sheet: Sheet, title: str) -> dict[object, tuple[Any, ...]]:
    table = next(one for one in sheet.tables if one.title.startswith(title))
    return {row[0]: row[1:] for row in table.rows}


def test_a_calibration_s_sheet() -> None:
    """Numbers, verdicts and a diagram of the bins stand on it, and no draft does."""
    sheet = calibrated([0.9, 0.1, 0.8, 0.3, None]).sheet

    assert sheet.verdict.words == "1 judge, 5 labelled drafts"
    beside = cells(sheet, "Scores beside labels")
    assert beside["AUC, pass against fail"][1] == "1.00 (1.00 to 1.00)"
    assert beside["examples scored"][1] == "4 of 5"
    assert cells(sheet, "Verdicts, repeats")["recommended threshold"][1] == "0.55"
    assert cells(sheet, "Verdicts, repeats")["false passes, fails at it"][1] == "0, 0"
    assert cells(sheet, "Verdicts, repeats")["accuracy at it"] == ("100 %", "100 %")
    assert cells(sheet, "Reliability of a/b")["0.30 to 0.30"] == (1, 0.3, 0.0)
    label, score = sheet.charts[0].curves
    assert (len(label.points), label.points[-1], score.points[-1]) == (4, 1.0, 0.9)
    assert "d0" not in str(sheet)


@pytest.mark.parametrize("own", [True, False])
def test_the_document_alone_makes_the_sheet(own: bool) -> None:
    """Also that of an earlier version, which does not say how often drafts were judged."""
    found = calibrated([0.9, 0.1, 0.8, 0.3, None])
    document = json.loads(json.dumps(found.document))
    later = ("repeats", "reversed", "guardrails")
    kept = {name: one for name, one in document.items() if own or name not in later}

    sheet = calibrate.sheet_of(kept)

    facts = {fact.label for fact in found.sheet.facts} - {fact.label for fact in sheet.facts}
    assert facts == (set() if own else {"evaluations", "guardrails"})
    assert sheet.model_copy(update={"facts": ()}) == found.sheet.model_copy(update={"facts": ()})


def test_a_judge_s_name_can_do_nothing_to_the_page() -> None:
    """It is escaped wherever it stands."""
    sheet = calibrated([0.9, 0.1], "<script>alert(1)</script>").sheet

    assert "<script>" not in page_html(sheet)


@pytest.mark.parametrize(
    ("found", "signed", "words"),
    [
        (Estimate(), False, "-"),
        (Estimate(value=0.5), False, "0.50"),
        (Estimate(value=0.5, low=0.25, high=0.754), False, "0.50 (0.25 to 0.75)"),
        (Estimate(value=-0.004, low=-0.1, high=0.1), True, "+0.00 (-0.10 to +0.10)"),
    ],
)
def test_numbers(found: Estimate, signed: bool, words: str) -> None:
    """Two places, a dash for what is undefined, and no loss where there is none."""
    assert estimate_words(found, signed=signed) == words


def drafted(item: int, method: str, answer: str, tokens: int) -> Read:
    """A run that wrote a draft with its answer marked."""
    result = made(
        ReflectOnResultResult,
        draft=f"Thought over.\nAnswer: {answer}",
        revisions=int(method == "reflect"),
        model="a/b",
        judges=("a/b",),
        stop_reason="max_revisions",
    )
    return Read(run_of(item, method, tokens=tokens), result, 2.0)


def compared(*reads: Read) -> Findings:
    return compare.findings(COMPARED, "b", batch_of(*(read.run for read in reads)), reads)


def test_a_comparison_s_sheet() -> None:
    """Methods, changes and what reflection cost beside the source's table stand on it."""
    single = (drafted(0, "single", "7", 100), drafted(1, "single", "49.0", 100))
    found = compared(*single, drafted(0, "reflect", "42", 400), drafted(1, "reflect", "49", 400))

    sheet = found.sheet
    assert cells(sheet, "Methods")["single"] == (2, "50 %", "9 to 91", "100", "$0.10", "2.0")
    assert cells(sheet, "Against single")["reflect"][0] == "+50 %"
    assert cells(sheet, "Against single")["reflect"][2:] == (1, 0, "1.000", "+300 %")
    facts = {fact.label: (fact.value, fact.note) for fact in sheet.facts}
    assert facts["reflect takes"] == ("+300 % of single's tokens", "with 1.00 revisions a question")
    assert "8,000 to 17,000 tokens, +112 %" in facts["the chapter"][0]
    assert "18,000, +125 %" in facts["the chapter"][0]
    assert "The judge also wrote the texts" in " ".join(sheet.flags)
    assert found.document["warnings"] == list(sheet.flags)


def test_a_run_that_failed_is_wrong() -> None:
    """A method that gives no answer is not left out."""
    found = compared(Read(run_of(0, "single", "failed"), None))

    assert [one["right"] for one in found.document["outcomes"]] == [False]
    assert found.all_failed
    assert any("1 run by single failed, and count" in flag for flag in found.sheet.flags)


def test_a_result_that_is_not_kept_any_more_is_no_failure() -> None:
    """What the server has dropped counts neither for nor against a method."""
    runs = (run_of(0, "single"), run_of(1, "single", "not_started"))
    found = compared(*(Read(run, None) for run in runs))

    assert found.document["outcomes"] == []
    assert "1 result no longer kept by the server, and left out." in found.sheet.flags
    assert "1 run not made: all have ended." in found.sheet.flags
