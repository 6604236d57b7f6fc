"""What a model is asked for: the prompt and the schema of its reply."""

import pytest

from reflection.convergence.answers.reply import (
    ANSWER_SCHEMAS,
    CHAIN_OF_THOUGHT,
    build_prompt,
    reply_schema,
)
from reflection.sampling.request import AnswerKind

HOW_TO_REPLY = (
    'Reply with one JSON object: first "reasoning", your reasoning as a string, then "answer", '
    "the final answer alone: {}. If you cannot write JSON, write your reasoning, and as the last "
    "line\nAnswer: <the final answer alone>"
)
SHORT = "as short as possible, without an explanation"


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("exact", SHORT),
        ("text", SHORT),
        ("llm", SHORT),
        ("number", "only the number, without a unit or words"),
        ("choice", "only the letter of the choice"),
    ],
)
def test_a_prompt_is_the_sources_with_how_to_reply(kind: AnswerKind, hint: str) -> None:
    """Without a template the chain-of-thought prompt stands before the question."""
    prompt = build_prompt("Is 91 prime?", None, kind)

    assert prompt == (
        "Please think step by step and provide your reasoning: Is 91 prime?\n\n"
        + HOW_TO_REPLY.format(hint)
    )


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ("Q: {question}\nA:", "Q: {x} {question} %s\nA:"),
        ("{question} {other} {0}", "{x} {question} %s {other} {0}"),
        ("{question} and {question}", "{x} {question} %s and {x} {question} %s"),
        ("Think hard.", "Think hard.\n\n{x} {question} %s"),
    ],
)
def test_a_template_takes_the_question_as_it_is(template: str, asked: str) -> None:
    """A template has its place of the question filled, or the question at its end."""
    prompt = build_prompt("{x} {question} %s", template, "exact")

    assert prompt == f"{asked}\n\n{HOW_TO_REPLY.format(SHORT)}"
    assert CHAIN_OF_THOUGHT not in prompt


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("exact", {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        ("text", {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        ("llm", {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        ("choice", {"type": "string"}),
        ("number", {"anyOf": [{"type": "number"}, {"type": "string"}]}),
    ],
)
def test_a_schema_asks_for_the_reasoning_first(kind: AnswerKind, answer: dict[str, object]) -> None:
    """A schema has the reasoning, then the answer, both required and nothing else."""
    schema = reply_schema(kind)

    assert list(schema["properties"].items()) == [
        ("reasoning", {"type": "string", "maxLength": 600}),
        ("answer", answer),
    ]
    assert schema["required"] == ["reasoning", "answer"]
    assert schema["additionalProperties"] is False


def test_a_schema_is_the_callers_own() -> None:
    """Changing a schema, as an adapter may, changes no later one."""
    reply_schema("choice")["properties"]["answer"]["minLength"] = 1

    assert reply_schema("choice")["properties"]["answer"] == {"type": "string"}
    assert ANSWER_SCHEMAS["choice"] == {"type": "string"}
