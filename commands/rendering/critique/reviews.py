"""What a person needs to see to say what becomes of a draft."""

from rich.console import Console
from rich.text import Text

from commands.rendering.critique.drafts import drafts_table
from commands.rendering.critique.results import best_rows
from commands.rendering.panel import Row, panel
from reflection.critique.result import Progress
from reflection.critique.words.wording import best_of
from reflection.text import neutral, terminal_safe


def print_review(console: Console, progress: Progress) -> None:
    """Print the best draft, and what was made of it."""
    best = best_of(progress)
    rows: list[Row] = [("query", Text(terminal_safe(progress.query, 2_000)))]
    rows.append(("drafts", drafts_table(progress.drafts, best.index if best else None)))
    rows += best_rows(best, progress.criteria)
    rows.append(("threshold", Text(f"{progress.score_threshold:g}")))
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in progress.warnings]
    console.print(panel(rows))
    if best is not None:
        console.rule(Text("the draft", "dim"))
        console.print(Text(neutral(best.text)), soft_wrap=not console.is_terminal)
        console.rule(style="dim")
