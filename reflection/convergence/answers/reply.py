"""What a model is asked for, and what its reply says: a reasoning and an answer."""

from typing import Any, NamedTuple

from reflection.convergence.answers.marks import find_marked
from reflection.objects import Members, last_object, plain
from reflection.sampling.request import AnswerKind
from reflection.text import well_formed

CHAIN_OF_THOUGHT = "Please think step by step and provide your reasoning: "
PLACE_OF_QUESTION = "{question}"

HOW_TO_REPLY = (
    'Reply with one JSON object: first "reasoning", your reasoning as a string, '
    'then "answer", the final answer alone: {hint}. '
    "If you cannot write JSON, write your reasoning, and as the last line\n"
    "Answer: <the final answer alone>"
)
AS_SHORT_AS_POSSIBLE = "as short as possible, without an explanation"
HINTS: dict[AnswerKind, str] = {
    "exact": AS_SHORT_AS_POSSIBLE,
    "text": AS_SHORT_AS_POSSIBLE,
    "number": "only the number, without a unit or words",
    "choice": "only the letter of the choice",
    "llm": AS_SHORT_AS_POSSIBLE,
}

STRING: dict[str, Any] = {"type": "string"}
# A small model reasons until it is cut off unless it is held to a length.
REASONING: dict[str, Any] = {"type": "string", "maxLength": 600}
NUMBER_OR_STRING: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string"}]}
ANSWER_SCHEMAS: dict[AnswerKind, dict[str, Any]] = {
    "exact": NUMBER_OR_STRING,
    "text": NUMBER_OR_STRING,
    "number": NUMBER_OR_STRING,
    "choice": STRING,
    "llm": NUMBER_OR_STRING,
}


class ParsedReply(NamedTuple):
    """The two parts of a reply, which can be stored as UTF-8; the answer is never empty."""

    reasoning: str
    answer: str


def build_prompt(question: str, template: str | None, kind: AnswerKind) -> str:
    """Build the prompt for one sample: the question, then how to reply.

    Without a template the chain-of-thought prompt stands before the question. In a template each
    `{question}` is replaced; where it has none the question goes to its end.
    Source: the self-reflection agent's pseudo-code for the chain-of-thought prompt.
    """
    how = HOW_TO_REPLY.replace("{hint}", HINTS[kind])
    return f"{_asked(question, template)}\n\n{how}"


def _asked(question: str, template: str | None) -> str:
    if template is None:
        return CHAIN_OF_THOUGHT + question
    if PLACE_OF_QUESTION in template:
        return template.replace(PLACE_OF_QUESTION, question)
    return f"{template}\n\n{question}"


def reply_schema(kind: AnswerKind) -> dict[str, Any]:
    """Return the JSON schema of a reply: reasoning first, then the answer, and nothing else.

    An answer may come as a number or as a string, since a forced type changes what a model
    answers. The bound on the reasoning is left out for providers that refuse bounds.
    """
    return {
        "type": "object",
        "properties": {"reasoning": dict(REASONING), "answer": dict(ANSWER_SCHEMAS[kind])},
        "required": ["reasoning", "answer"],
        "additionalProperties": False,
    }


def parse_reply(text: str) -> ParsedReply | None:
    r"""Read a reply, or return None where it has no answer; never raises.

    The last JSON object with an "answer" decides, in fences or prose too; numbers keep their
    characters (`1.0` stays `1.0`). None: an answer that is null, NaN, empty, a list or an object,
    two different ones in one object, and an object that the text breaks off. Without an object
    the last marked answer counts: `Answer: …`, `\boxed{…}` or `#### …`.
    """
    sought = last_object(text, "answer")
    if sought.broken:
        return None
    if sought.members is not None:
        return _from_object(sought.members)
    marked = find_marked(well_formed(text))
    return ParsedReply(marked.before, marked.answer) if marked else None


def _from_object(members: Members) -> ParsedReply | None:
    answers = {plain(value) for value in members.values_of("answer")}
    answer = answers.pop() if len(answers) == 1 else None
    answer = well_formed(answer).strip() if answer else None
    return ParsedReply(_reasoning(members), answer) if answer else None


def _reasoning(members: Members) -> str:
    parts: list[object] = []
    for value in members.values_of("reasoning"):
        parts += value if isinstance(value, list) else [value]
    texts = [plain(part) for part in parts]
    return well_formed("\n".join(text for text in texts if text)).strip()
