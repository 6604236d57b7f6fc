"""The result of a run: why it ended, and what its best draft is worth."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from commands.rendering.critique.drafts import criteria_table, drafts_table
from commands.rendering.panel import EMBEDDED, Row, panel, usage_rows
from reflection.critique.criteria import Criterion
from reflection.critique.evaluation import Evaluation
from reflection.critique.result import Draft, ReflectOnResultResult
from reflection.critique.words.wording import (
    draft_of,
    draft_words,
    feedback_words,
    judged_words,
    score_words,
)
from reflection.text import terminal_safe

MOST_FEEDBACK = 12


def print_details(console: Console, result: ReflectOnResultResult) -> None:
    """Print why a run ended, its drafts, the best one's evaluation, and what it cost."""
    best = draft_of(result.drafts, result.best)
    rows: list[Row] = [("stopped", _stopped(result))]
    rows += [("attention", Text(each, "bold yellow")) for each in _flags(result, best)]
    if result.drafts:
        rows.append(("drafts", drafts_table(result.drafts, result.best)))
    rows += best_rows(best, result.criteria)
    rows += usage_rows(result.usage)
    rows += [("model", _model(result.model))] if result.model else []
    rows += [("judge", Text(terminal_safe(each, 200))) for each in result.judges]
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in result.warnings]
    console.print(panel(rows))


def best_rows(best: Draft | None, criteria: Sequence[Criterion]) -> list[Row]:
    """Show the evaluation of the best draft: by criterion, by judge, and what it lacks."""
    if best is None or best.evaluation is None:
        return []
    evaluation = best.evaluation
    rows: list[Row] = [("best", Text(_worth(best, evaluation), "bold"))]
    if evaluation.criteria:
        rows.append(("criteria", criteria_table(evaluation, criteria)))
    rows += [("panel", Text(each)) for each in _panel(evaluation)]
    rows += [("guardrail", Text(each, "magenta")) for each in guardrail_words(evaluation)]
    listed = evaluation.feedback[:MOST_FEEDBACK]
    return rows + [("feedback", Text(feedback_words(each, 600))) for each in listed]


def guardrail_words(evaluation: Evaluation) -> list[str]:
    """Say of each guardrail that found something what it found, and how it caps the score."""
    return [
        f"{terminal_safe(each.guardrail, 40)}: {terminal_safe(each.reason, 300)} (at most {each.cap:g})"
        for each in evaluation.guardrails
    ]


def _worth(best: Draft, evaluation: Evaluation) -> str:
    if evaluation.score is None:
        said = terminal_safe(evaluation.error or "it was not evaluated", 400)
        return f"{draft_words(best.index)} has no score: {said}"
    judged = judged_words(evaluation)
    confidence = f", the judge's confidence is {evaluation.confidence}"
    shown = f"{draft_words(best.index)} with score {score_words(evaluation.score)}"
    return f"{shown}{f' ({judged})' if judged else ''}{confidence if evaluation.confidence else ''}"


def _panel(evaluation: Evaluation) -> list[str]:
    if len(evaluation.judgements) < 2:
        return []
    said = [
        f"{terminal_safe(each.judge or each.model or 'the judge', 60)} {score_words(each.score)}"
        + (f", left out: {terminal_safe(each.error, 200)}" if each.error else "")
        for each in evaluation.judgements
    ]
    spread = evaluation.spread
    return said + ([f"spread {spread:.2f}"] if spread is not None else [])


def _stopped(result: ReflectOnResultResult) -> Text:
    return Text(terminal_safe(result.stop_explanation, 400)).append(
        f" ({result.stop_reason})", "dim"
    )


def _flags(result: ReflectOnResultResult, best: Draft | None) -> list[str]:
    flags = []
    if result.draft is None:
        flags.append("there is no draft")
    if best is not None and best.cut:
        flags.append("the draft is longer than a result can hold, and was cut")
    if result.score is not None and best is not result.drafts[-1]:
        flags.append(_kept(result))
    hint = how_to_reflect(result)
    return [*flags, hint] if hint else flags


def _kept(result: ReflectOnResultResult) -> str:
    later = result.drafts[-1]
    if later.score is None:
        return f"{draft_words(later.index)} was not judged, and the best one before it is given"
    return f"{draft_words(result.best)} is better than what came after it"


def how_to_reflect(result: ReflectOnResultResult) -> str | None:
    """Say how to have a run reflect that did not; None where it did."""
    if result.stop_reason == "disabled":
        return "leave out --no-reflect to have it judged and revised"
    if result.stop_reason != "skipped":
        return None
    if result.complexity is None:
        return "leave out --synthesis-follows to have it judged and revised"
    return "--min-complexity 0 has it judged and revised all the same"


def _model(name: str) -> Text:
    toy = " (a toy: its drafts show how Mull works, not how good models are)"
    return Text(terminal_safe(name, 200)).append(toy if name.startswith(EMBEDDED) else "", "dim")
