"""One line for each draft as it is evaluated, and for each decision beside that."""

from rich.console import Console
from rich.text import Text

from reflection.critique.result import Decision, Draft
from reflection.critique.words.wording import (
    criteria_words,
    decision_words,
    draft_words,
    judged_words,
)
from reflection.words.blocks import bar

REASON_COLUMNS = 200


def print_decision(
    console: Console, decision: Decision, draft: Draft | None, *, again: bool
) -> None:
    """Print a decision on one line: cut in a terminal, whole anywhere else.

    `draft` is the one it is about; `again` is true where a line before showed that draft.
    """
    line = decision_line(decision, draft, again=again)
    if console.is_terminal and line.cell_len > console.width:
        line = decision_line(decision, draft, again=again, short=True)
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis")
    else:
        console.print(line, soft_wrap=True)


def decision_line(
    decision: Decision, draft: Draft | None, *, again: bool = False, short: bool = False
) -> Text:
    """Show a draft with its score, its scores by criterion, and what was decided.

    `short` leaves out the scores by criterion, which the result shows for the best draft.
    """
    words = decision_words(decision, REASON_COLUMNS)
    outcome = Text(words, "bold" if decision.stop or decision.waits_for_review else "dim")
    if draft is None:
        return outcome
    line = Text(f"{'' if again else draft_words(draft.index):<9}")
    if not again:
        line.append_text(_evaluation(draft, decision.threshold, short=short))
    return line.append_text(outcome)


def _evaluation(draft: Draft, threshold: float, *, short: bool) -> Text:
    evaluation = draft.evaluation
    if evaluation is None:
        return Text()
    if evaluation.score is None:
        return Text("no score  ", "yellow")
    style = "green" if evaluation.score >= threshold - 1e-9 else "yellow"
    line = Text(f"{evaluation.score:.2f} {bar(evaluation.score, 8)}  ", style)
    judged = judged_words(evaluation)
    shown = judged.replace("capped by ", "") if short else judged
    line.append(f"({shown})  " if judged else "", "magenta")
    criteria = "" if short else criteria_words(evaluation)
    return line.append(f"{criteria}  " if criteria else "", "default")
