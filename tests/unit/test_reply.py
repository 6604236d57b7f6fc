"""What a reply says: its reasoning and its answer."""

import json
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflection.convergence.answers.reply import parse_reply


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ('{"reasoning": "r", "answer": "Paris"}', "r", "Paris"),
        ('{"reasoning": "r", "answer": 1.0}', "r", "1.0"),
        ('{"reasoning": "r", "answer": -1e999}', "r", "-1e999"),
        ('{"reasoning": "r", "answer": true}', "r", "true"),
        ('{"answer": ' + "9" * 5_000 + "}", "", "9" * 5_000),
        ('```json\n{"reasoning": "r", "answer": "x"}\n```', "r", "x"),
        ('Sure: {"answer": 1}, or rather {"answer": 2}. Done.', "", "2"),
        ('{x | x > 2} gives {"answer": 7}', "", "7"),
        ('{"answer": 7} and {"other": 8}', "", "7"),
        (
            '{"reasoning": "an object {\\"answer\\": 1}", "answer": 2}',
            'an object {"answer": 1}',
            "2",
        ),
        ('[{"answer": 3}]', "", "3"),
        ('{"Reasoning": ["a", "b"], "Answer": 5}', "a\nb", "5"),
        ('{"reasoning": "two\nlines", "answer": "x"}', "two\nlines", "x"),
        ('{"answer": 1, "answer": 1}', "", "1"),
        (r'{"reasoning": "\(x\)", "answer": "\frac{1}{2}"}', r"\(x\)", r"\frac{1}{2}"),
        (r'{"answer": "\boxed{4}"}', "", r"\boxed{4}"),
        (r'{"reasoning": "\ud83d\ude00", "answer": "\ud800"}', "\U0001f600", "\ufffd"),
    ],
)
def test_the_last_object_with_an_answer_is_read(text: str, reasoning: str, answer: str) -> None:
    """The last JSON object with an answer counts, numbers as they are written."""
    assert parse_reply(text) == (reasoning, answer)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("7 * 13 = 91\nAnswer: no", "7 * 13 = 91", "no"),
        ("so\n**Answer:** 42", "so", "42"),
        ("so\n**Answer**: 42", "so", "42"),
        ("so\n**Final Answer: 42**", "so", "42"),
        ("so\n## final answer : **42**\n", "so", "42"),
        ("so\nThe answer: 42", "so", "42"),
        ('so\nAnswer: "Paris"', "so", "Paris"),
        ('so\nAnswer: "a" or "b"', "so", '"a" or "b"'),
        ("so\nAnswer:\n\n42\nBye", "so", "42"),
        ("Answer: 1\nno, wait\nAnswer: 2", "Answer: 1\nno, wait", "2"),
        ("so \\boxed{\\frac{3}{4}} it is", "so", "\\frac{3}{4}"),
        ("so\nAnswer: \\boxed{4}", "so", "4"),
        ("\\boxed{3}\nAnswer: 4", "\\boxed{3}", "4"),
        ("Answer: 3\nno: \\boxed{4}", "", "4"),
        ("so\n#### 42", "so", "42"),
        ("so\ud800\nAnswer: \ud800", "so\ufffd", "\ufffd"),
    ],
)
def test_without_an_object_the_last_marked_answer_is_read(
    text: str, reasoning: str, answer: str
) -> None:
    """An answer line, a box or four hashes mark the answer, and before it is the reasoning."""
    assert parse_reply(text) == (reasoning, answer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "I answer: well, no",
        "Answer:",
        "\\boxed{42",
        '{"reasoning": "r", "answer": null}',
        '{"reasoning": "r", "answer": NaN}',
        '{"reasoning": "r", "answer": -Infinity}',
        '{"reasoning": "r", "answer": ""}',
        '{"reasoning": "r", "answer": [1]}',
        '{"reasoning": "r", "answer": {"answer": 1}}',
        '{"answer": 1, "answer": 2}',
        '{"reasoning": "r", "answer": "4',
        '{"reasoning": "r", "answer": 4',
        '{"reasoning": "\\boxed{4} \nAnswer: 4',
        '{"answer": 4} then {"answer": 5',
        '{"answer": ' + "[" * 100_000,
        '{"answer": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"answer": ' * 100_000,
        '{"x"x ' * 2_000 + '{"answer": 1}',
    ],
)
def test_a_reply_without_an_answer_is_none(text: str) -> None:
    """No mark, no plain value, a contradiction and a text broken off are unreadable."""
    assert parse_reply(text) is None


@settings(deadline=None)
@given(reasoning=st.text(), answer=st.text(), before=st.sampled_from(["", "So {this}: ", "```\n"]))
def test_a_well_formed_reply_is_read_back(reasoning: str, answer: str, before: str) -> None:
    """A reply in JSON gives its two parts back, without the white space around them."""
    reply = before + json.dumps({"reasoning": reasoning, "answer": answer})

    parsed = parse_reply(reply)

    latex = {8: "\\b", 12: "\\f"}
    expected = (reasoning.translate(latex).strip(), answer.translate(latex).strip())
    assert parsed == (expected if expected[1] else None)


@settings(deadline=None)
@given(text=st.text(alphabet='{}[]":,\\aeswnr \nAnswer#*bo1.\ud800'))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    """Whatever the text, the result is None or two parts that UTF-8 can hold."""
    parsed = parse_reply(text)

    assert parsed is None or (parsed.answer.encode() and parsed.reasoning.encode() is not None)


HOSTILE = (
    *(
        "{",
        '{"',
        '{"a":',
        '{"a":[',
        '{"a"x',
        '{"\\z":1}',
        '{"answer":1}',
        "{}",
        "[",
        "\\",
        '"',
        "*",
    ),
    *("\\boxed{", "\\boxed{}", "Answer: ", "Answer: x\n", "Answer:\n", "answer ", "#### ", " "),
)


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_reply_is_parsed_in_linear_time(unit: str) -> None:
    """A million characters take under five seconds, whatever they repeat."""
    start = perf_counter()

    parse_reply("Answer" + unit * (1_000_000 // len(unit)))

    assert perf_counter() - start < 5
