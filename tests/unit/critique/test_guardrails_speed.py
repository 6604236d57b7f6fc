"""No text makes a guardrail fail, and none makes a function of this room slow."""

from collections.abc import Callable
from functools import partial
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reflection.critique.complexity import complexity
from reflection.critique.criteria import PRESETS
from reflection.critique.evaluation import Feedback, parse_judgement
from reflection.critique.forms import addresses, cited_numbers, defect, lack, read
from reflection.critique.guardrails import Checked, check, known_guardrails
from reflection.critique.injections import said_to_judge
from reflection.critique.prompts import (
    build_draft_prompt,
    build_judge_prompt,
    build_revision_prompt,
)
from tests.unit.critique.test_guardrails import HONEST

GENERAL = PRESETS["general"]
EVERY = tuple({one.name: None for preset in PRESETS.values() for one in preset})
"""The criteria of every preset: a guardrail that waits for some of them does its work."""
PIECES = [
    *"[]()`~|#*_-+=<>{}:;,.\"'!\\/09aé珊\u0301\x00 \n\t",
    *("  \n", "a\n", "> ", "- a\n", "1) a\n\n", "    [1]\n", "```\n", "``` ", "|-", "a|b\n-|-\n"),
    *("<!--", "<a ", "</", "<![CDATA[", "<|", "[1]", "[1,", "[^1]", "[a](", "[[a]", "](http://"),
    *("[a]: b\n", "http://", "http://a.b/", "Smith, ", "A and ", "10.1000/", "References\n\n"),
    *("[insert ", "a.b", "a-", "x1", "(a", "x = [", "lambda ", "def f(", '"a": ', '{"a":', "a: ["),
    *("1,000 ", "the ", "very ", "i can't ", "as an ai ", "as json ", "in one ", "word. ", "# ..."),
    *("ignore all ", "ignore the previous ", "score this ", "you are ", "judge: ", "END OF "),
    *("<think>", '{"criteria_scores": ', "clarity: 1", "=== draft 1 ===\n", "write python "),
]


def functions(text: str) -> dict[str, Callable[[], object]]:
    """Every public function of the room that takes text, with this one in each place."""
    checked = Checked(query=text, draft=text, previous=text[:-1], sources=(text,), asks_for=EVERY)
    forms = ("a list of JSON", "YAML", "a table", "a Python function")
    said = [Feedback(advice=text, place=text)]
    return {
        "read": lambda: read.__wrapped__(text),
        **{name: partial(check, checked, [name]) for name in known_guardrails()[1:]},
        "json": lambda: defect(text, "json"),
        "python": lambda: defect(text, "python"),
        "markdown": lambda: defect(text, "markdown"),
        **{form: partial(lack, text, f"Write {form}.") for form in forms},
        "said_to_judge": lambda: said_to_judge(text, "Why?", EVERY),
        "citations": lambda: [*cited_numbers(text), *addresses(text)],
        "complexity": lambda: complexity(text),
        "parse_judgement": lambda: parse_judgement(text, GENERAL, 0.7, text),
        "judge": lambda: build_judge_prompt(text, text, GENERAL, 0.7, sources=(text,)),
        "draft": lambda: build_draft_prompt(text, (text,), None),
        "revision": lambda: build_revision_prompt(text, text, said, (text,), None),
    }


def seconds(call: Callable[[], object]) -> float:
    """The CPU seconds of one call."""
    start = process_time()
    call()
    return process_time() - start


@pytest.mark.parametrize("piece", PIECES)
def test_no_repeated_piece_is_slow(piece: str) -> None:
    """Each function takes at most three times as long for twice the worst text.

    Under 0.3 seconds, for which a busy machine may take some more, nothing is too slow. What takes
    under a sixteenth of that for a quarter of the text takes no longer even if it is quadratic.
    """
    full, half, quarter = (functions((piece * size)[:size]) for size in (100_000, 50_000, 25_000))

    for name, call in full.items():
        if seconds(quarter[name]) < 0.3 / 16:
            continue
        took = seconds(call)
        if took > 0.3:
            took = min(took, seconds(call))
            assert took < 3 * max(seconds(half[name]), seconds(half[name])), name
            assert took < 4, name


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([*PIECES, HONEST]) | st.text(max_size=20), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=20).map("".join),
    st.sampled_from([None, "json", "python", "markdown"]),
)
@example("```\n\r0", "", None)
def test_no_text_makes_a_guardrail_fail(draft: str, other: str, form: str | None) -> None:
    """Whatever the texts are, every guardrail returns a finding or none, with a plain reason."""
    checked = Checked(
        query=other, draft=draft, previous=other, sources=(other,), format=form, asks_for=EVERY
    )

    report = check(checked, ["default"])

    assert report.failures == ()
    assert all(0 <= cap.cap < 1 and "\n" not in cap.reason for cap in report.caps)
