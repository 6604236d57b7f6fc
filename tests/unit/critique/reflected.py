"""Whole runs of reflection for tests: the real rule decides over scores that a test writes down."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mull.critique.evaluation import Cap, Evaluation, Feedback, Judgement
from mull.critique.loop import Reflection
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import Draft
from mull.run import Part
from tests.unit.runs import START, spending

WRITER, JUDGE = "openai/gpt-test", "openai/gpt-judge"
QUERY = "Compare Kafka and Pulsar for an audit log."
TOO_SHORT = Cap(
    guardrail="too_short", cap=0.5, above=0.8, reason="240 characters are few for this query"
)
ADVICE = Feedback(
    advice="Name the license of each.",
    criterion="completeness",
    place="second paragraph",
    judge=JUDGE,
)

WEIGHED = [
    {"name": "completeness", "meaning": "Nothing that was asked for is missing.", "weight": 2},
    {"name": "correctness", "meaning": "It is true."},
    {"name": "clarity", "meaning": "It is understood at once."},
]


def reflected(scores: Sequence[float | Evaluation | None], **fields: Any) -> Reflection:
    """Evaluate one draft after the other as the workflow does, until the rule says stop.

    A number is the judges' score, None an evaluation that failed.
    """
    asked: dict[str, Any] = {"query": QUERY, "model": WRITER, "max_revisions": 3}
    state = Reflection(ReflectOnResultRequest(**asked | fields))
    for index, score in enumerate(scores):
        if state.stopped:
            break
        write(state, f"Kafka keeps a log. Revision {index}.")
        state.pay("evaluating", spending(300, 60), 1)
        state.evaluated(index, judged(score))
        state.decide(START + timedelta(seconds=10 * index + 5))
    return state


def write(state: Reflection, text: str, **more: Any) -> None:
    """Add a draft of 100 tokens in and 200 out."""
    index = len(state.drafts)
    part: Part = "revising" if index else "generating"
    state.pay(part, spending(100, 200), 1)
    known: dict[str, Any] = {
        "index": index, "text": text, "origin": "revised" if index else "generated",
        "revises": index - 1 if index else None, "model": WRITER, "finish_reason": "stop",
        "attempts": 1, "spending": spending(100, 200),
        "timestamp": START + timedelta(seconds=10 * index),
    }  # fmt: skip
    state.drafts.append(Draft(**known | more))


def judged(score: float | Evaluation | None) -> Evaluation:
    """Return what one judge made of a draft; a score is that of each criterion."""
    if isinstance(score, Evaluation):
        return score
    if score is None:
        return Evaluation(error="unreadable twice: no JSON object in the reply")
    criteria = {"completeness": score, "correctness": score, "clarity": score}
    one = Judgement(judge=JUDGE, score=score, scores=criteria, confidence="high", model=JUDGE)
    return Evaluation(
        score=score,
        judged=score,
        criteria=criteria,
        confidence="high",
        feedback=(ADVICE,),
        judgements=(one.model_copy(update={"replies": 1}),),
    )


def panel() -> Evaluation:
    """Return what a panel of three made of a draft: one is unsure, one gave no reply."""
    return judged(0.75).model_copy(
        update={
            "spread": 0.3,
            "judgements": (
                Judgement(judge="a", score=0.6, scores={"clarity": 0.6}, replies=1),
                Judgement(judge="b", score=0.9, confidence="low", replies=2),
                Judgement(judge="c", error="no reply in time"),
            ),
        }
    )


def capped(score: float) -> Evaluation:
    """Return an evaluation that a guardrail capped at 0.5."""
    return judged(score).model_copy(
        update={"score": 0.5, "confidence": "low", "guardrails": (TOO_SHORT,)}
    )
