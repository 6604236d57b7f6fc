"""Each decision on one line: as it is made, and all of them as a table."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.rendering.cells import grid
from commands.rendering.multipath.details import critique_lines
from commands.rendering.multipath.wording import next_words, reason_words
from reflection.multipath.result import Decision, Draft, Routing
from reflection.multipath.words.wording import routing_words
from reflection.text import terminal_safe, width

NODE_COLUMNS = 17
REASON_COLUMNS = 240
LEAST_REASON = 8


def print_decision(console: Console, decision: Decision, routing: Routing | None) -> None:
    """Print a decision on one line: cut in a terminal, whole anywhere else."""
    if not console.is_terminal:
        console.print(decision_line(decision, routing), soft_wrap=True)
        return
    line = decision_line(decision, routing, console.width)
    console.print(line, no_wrap=True, overflow="ellipsis")


def print_critiques(console: Console, draft: Draft) -> None:
    """Print what was found wrong with a draft below its decision, a critique on each line."""
    indent = " " * (NODE_COLUMNS + 2)
    room = console.width - len(indent) if console.is_terminal else REASON_COLUMNS
    for each in critique_lines(draft, max(LEAST_REASON, room)):
        console.print(Text(f"{indent}{each}", "dim"), soft_wrap=True)


def decision_line(decision: Decision, routing: Routing | None, columns: int | None = None) -> Text:
    """Show the node that ended, on what the decision rests, and what comes next.

    Where that is wider than `columns`, the next node is left out, which has the next line; what
    ends a run stays, and the reason is cut.
    """
    ends = decision.stop or decision.waits_for_review
    head = f"{decision.after or '-':<{NODE_COLUMNS}}  "
    tail = f" → {next_words(decision)}"
    reason = _reason(decision, routing, REASON_COLUMNS)
    if columns is not None and width(head + reason + tail) > columns:
        tail = tail if ends else ""
        reason = terminal_safe(reason, max(LEAST_REASON, columns - width(head) - width(tail)))
    line = Text(head, "cyan").append(reason, "default")
    return line.append(tail, "bold" if ends else "dim")


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """Show every decision: after which node, R_n, what was decided, and why."""
    table = grid("after", "revisions\n(R_n)", "next", "because", right=(1,))
    for each in decisions:
        table.add_row(
            Text(each.after or "-"),
            Text(str(each.revisions)),
            Text(next_words(each)),
            Text(reason_words(each, REASON_COLUMNS)),
            style="bold" if each.stop else None,
        )
    return table


def _reason(decision: Decision, routing: Routing | None, most: int) -> str:
    if decision.after == "route" and decision.next is not None and routing is not None:
        return routing_words(routing, most)
    return reason_words(decision, most)
