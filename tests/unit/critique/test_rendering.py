import pytest
from rich.cells import cell_len

from commands.rendering.critique import (
    DraftsLive,
    decisions_table,
    print_details,
    print_progress,
    print_review,
)
from reflection.critique.evaluation import Evaluation, Judgement
from reflection.critique.loop import Reflection, result
from reflection.critique.result import ReflectOnResultResult
from reflection.run import usage
from tests.unit.critique.reflected import (
    START,
    TOO_SHORT,
    capped,
    judged,
    reflected,
    spending,
    write,
)
from tests.unit.critique.shown import console, standing, written

HOSTILE = "[red]x[/red] :smile: \x1b[31m\x07 [/nothing] ` ```"


def details(ended: ReflectOnResultResult) -> str:
    on = console(100)
    print_details(on, ended)
    return written(on)


def skipped(**fields: object) -> ReflectOnResultResult:
    state = reflected([], **fields)
    write(state, "only one")
    state.complexity = 0.3
    state.stop("skipped", "the estimated complexity 0.30 is not above 0.5", START)
    return result(state)


HOSTILE_RUN = reflected(
    [
        judged(0.4).model_copy(
            update={
                "author": HOSTILE,
                "criteria": {HOSTILE: 0.4},
                "judgements": (
                    Judgement(judge=HOSTILE, score=0.4, model=HOSTILE),
                    Judgement(judge=HOSTILE, error=HOSTILE),
                ),
                "guardrails": (TOO_SHORT.model_copy(update={"reason": HOSTILE}),),
            }
        ),
        0.3,
    ],
    query=HOSTILE,
)


def test_the_result_of_a_run() -> None:
    """Why it ended, every draft, the best one's evaluation, and each part of what it cost."""
    shown = details(result(reflected([0.42, 0.75])))

    assert shown.splitlines() == [
        "stopped   score 0.75 reaches 0.7 (passed)",
        "drafts    #  origin     score  change  chars  model",
        "          ───────────────────────────────────────────────────",
        "          1  generated   0.42             30  openai/gpt-test",
        "          2  revised     0.75   +0.33     30  openai/gpt-test",
        "best      draft 2 with score 0.75, the judge's confidence is high",
        "criteria  completeness  ▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁  0.75",
        "          correctness   ▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁  0.75",
        "          clarity       ▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁  0.75",
        'feedback  completeness, at "second paragraph": Name the license of each.',
        "usage     generating  1 call, 100 tokens in and 200 out, cost $0.0010",
        "          evaluating  2 calls, 600 tokens in and 120 out, cost $0.0020",
        "          revising    1 call, 100 tokens in and 200 out, cost $0.0010",
        "          in all      4 calls, 800 tokens in and 520 out, cost $0.0040",
        "model     openai/gpt-test",
        "judge     openai/gpt-judge",
    ]


def test_a_better_draft_before_the_last_is_said_to_be_taken() -> None:
    """A revision that is worse does not replace what was better, and the user is told."""
    shown = details(result(reflected([0.6, 0.5], max_revisions=1)))

    assert "attention  draft 1 is better than what came after it" in shown
    assert "best       draft 1 with score 0.60" in shown


def test_a_panel_is_shown_judge_by_judge() -> None:
    """Each judge's score, the one that was left out, and the spread."""
    judgements = (
        Judgement(judge="a", score=0.6),
        Judgement(judge="b", score=0.9),
        Judgement(judge="c", error="no reply in time"),
    )
    evaluation = judged(0.75).model_copy(update={"judgements": judgements, "spread": 0.3})

    shown = details(result(reflected([evaluation])))

    assert (
        "panel     a 0.60\n          b 0.90\n          c -, left out: no reply in time\n" in shown
    )
    assert "          spread 0.30\n" in shown


def test_weights_are_shown_where_they_differ() -> None:
    """The overall score of a weighted set can be followed."""
    criteria = [
        {"name": "tone", "meaning": "It is courteous.", "weight": 2},
        {"name": "facts", "meaning": "It is true."},
    ]
    scored = Evaluation(score=0.8, judged=0.8, criteria={"tone": 0.9, "facts": 0.6})

    shown = details(result(reflected([scored], criteria=criteria)))

    assert "tone   ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁  0.90  weight 2" in shown


@pytest.mark.parametrize(
    ("reason", "complexity", "hint"),
    [
        ("skipped", 0.3, "--min-complexity 0 has it judged and revised all the same"),
        ("skipped", None, "leave out --synthesis-follows"),
        ("disabled", None, "leave out --no-reflect"),
    ],
)
def test_what_was_not_reflected_on_says_how_it_would_be(
    reason: str, complexity: float | None, hint: str
) -> None:
    """A run that skips reflection names the option that has it reflect all the same."""
    changes = {"stop_reason": reason, "complexity": complexity}

    shown = details(skipped().model_copy(update=changes))

    assert f"attention  {hint}" in shown


def test_a_cost_that_nobody_knows_is_unknown() -> None:
    """An unknown cost is never a number, and calls without a reply are told."""
    unknown = usage([spending(1, 1).model_copy(update={"cost_usd": None})], [], 2, 0, [])

    shown = details(result(reflected([0.75])).model_copy(update={"usage": unknown}))

    assert "generating  1 call, 1 tokens in and 1 out, cost unknown" in shown
    assert "and 2 calls without a reply" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "state",
    [reflected([0.42, capped(0.9), 0.6, 0.8]), reflected([None]), HOSTILE_RUN],
    ids=["revised", "failed", "hostile"],
)
def test_it_fits_the_width(width: int, state: Reflection) -> None:
    """No line is wider than the terminal."""
    if not state.stopped:
        state.stop("finished_by_person", HOSTILE, START, HOSTILE)
    on = console(width, terminal=True)

    DraftsLive(on, "reflect-kafka").end(result(state))
    print_details(on, result(state))
    print_progress(on, standing(state), state.decisions)
    print_review(on, standing(state))
    on.print(decisions_table(state.decisions))

    assert all(cell_len(line) <= width for line in written(on).splitlines())


def test_no_text_of_a_model_acts_on_the_terminal() -> None:
    """Markup, emoji codes and escapes in drafts, feedback and warnings are shown as they are."""
    state = reflected([capped(0.9)], query=HOSTILE)
    write(state, HOSTILE, author=HOSTILE, model=HOSTILE)
    state.chosen = 1
    state.warn(HOSTILE)
    state.stop("finished_by_person", HOSTILE, START, HOSTILE)
    on = console(200)

    DraftsLive(on, "reflect-kafka").end(result(state))
    print_details(on, result(state))
    print_review(on, standing(state))

    assert written(on).count("[red]x[/red] :smile: ␛[31m␇ [/nothing]") >= 5
    assert "\x1b" not in written(on)
    assert "\x07" not in written(on)
