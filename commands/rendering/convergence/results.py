"""The result of a run: its sentence, and what it rests on."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from commands.rendering.cells import cut
from commands.rendering.panel import EMBEDDED, Row
from reflection.convergence.words.wording import answer_words, ranked
from reflection.sampling.result import SelfConsistencyResult
from reflection.text import spent_words, tally_words, terminal_safe
from reflection.words.blocks import bar, sparkline

FINAL_COLUMNS = 2_000
MOST_ANSWERS = 10
MOST_ERRORS = 3
MOST_WAVES = 12
SPARKS = 24
UNCERTAINTY_STYLES = {"low": "green", "medium": "yellow", "high": "red"}


def print_result(console: Console, result: SelfConsistencyResult) -> None:
    """Print the source's sentence, never broken where that is no terminal, and the details."""
    console.print(reply_line(result), soft_wrap=not console.is_terminal)
    console.print()
    console.print(result_panel(result))


def reply_line(result: SelfConsistencyResult) -> Text:
    """Show the source's sentence on one line."""
    return Text(terminal_safe(result.reply, FINAL_COLUMNS), "bold")


def result_panel(result: SelfConsistencyResult) -> Group:
    """Show what the answer rests on: why it stopped, votes, measures, usage and warnings."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(ratio=1)
    for name, cell in _details(result):
        grid.add_row(name, cell)
    return Group(grid)


def votes_table(distribution: Mapping[str, float], valid_responses: int) -> Table:
    """Show the votes of each answer as bars, the ten largest."""
    votes = ranked(distribution, valid_responses)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(max_width=40)
    grid.add_column(no_wrap=True, style="green")
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    for answer, count, share in votes[:MOST_ANSWERS]:
        grid.add_row(cut(answer_words(answer, 40)), bar(share, 16), str(count), f"{share:.2f}")
    if len(votes) > MOST_ANSWERS:
        grid.add_row(Text(f"and {tally_words(len(votes) - MOST_ANSWERS, 'more answer')}", "dim"))
    return grid


def _details(result: SelfConsistencyResult) -> list[Row]:
    rows: list[Row] = [("stopped", _stopped(result))]
    rows += [("attention", each) for each in _flags(result)]
    rows += [("errors", each) for each in _errors(result)]
    if result.answer_distribution:
        rows.append(("votes", votes_table(result.answer_distribution, result.valid_responses)))
    rows += [
        ("confidence", _confidence(result)),
        ("entropy", _entropy(result)),
        ("consensus", Text(result.consensus_type)),
        ("answers", Text(_answers(result))),
        ("usage", Text(spent_words(result.usage))),
    ]
    rows += [("model", _model(result.model))] if result.model else []
    return rows + [
        ("warning", Text(terminal_safe(each, 400), "yellow")) for each in result.warnings
    ]


def _model(name: str) -> Text:
    toy = " (a toy: its answers show how Mull works, not how good models are)"
    return Text(terminal_safe(name, 200)).append(toy if name.startswith(EMBEDDED) else "", "dim")


def _stopped(result: SelfConsistencyResult) -> Text:
    return Text(terminal_safe(result.stop_explanation, 400)).append(
        f" ({result.stop_reason})", "dim"
    )


def _flags(result: SelfConsistencyResult) -> list[Text]:
    flags = []
    if result.stop_reason == "no_consensus" and result.final_answer is not None:
        flags.append("no consensus: the answers do not support a conclusion")
    if result.final_answer is None:
        flags.append("no answer could be read")
    if result.cut_short and result.final_answer is not None:
        least = f"only {result.valid_responses} of at least {result.min_responses} readable answers"
        flags.append(f"cut short: {least}, so that the confidence means little")
    if result.voted_answer is not None:
        flags.append(f"the votes gave another answer: {terminal_safe(result.voted_answer, 200)}")
    if result.tied:
        flags.append("tied: the lead is shared, and the answer seen first was taken")
    if not result.quorum_met:
        flags.append("the quorum of readable answers was not met")
    return [Text(each, "bold yellow") for each in flags]


def _errors(result: SelfConsistencyResult) -> list[Text]:
    """Show why responses gave no vote, the commonest reasons first."""
    found = Counter(each.error for each in result.responses if each.error is not None)
    listed = [
        f"{terminal_safe(error, 200)} ({times} x)"
        for error, times in found.most_common(MOST_ERRORS)
    ]
    return [Text(each, "yellow") for each in listed]


def _confidence(result: SelfConsistencyResult) -> Text:
    series = result.convergence_analysis.confidence_evolution[-SPARKS:]
    line = Text(f"{result.consensus_confidence:.2f} {sparkline(series)}  uncertainty ")
    return line.append(result.uncertainty_level, UNCERTAINTY_STYLES[result.uncertainty_level])


def _entropy(result: SelfConsistencyResult) -> Text:
    series = result.convergence_analysis.entropy_evolution[-SPARKS:]
    if not result.valid_responses:
        return Text("-")
    line = f"{result.normalized_entropy:.2f} {sparkline(series)}  {result.entropy_level}"
    return Text(f"{line}, {result.distribution_entropy:.2f} bits")


def _answers(result: SelfConsistencyResult) -> str:
    unread = result.total_responses - result.valid_responses
    lost = f", {unread} unreadable" if unread else ""
    lengths = " + ".join(str(each) for each in result.waves[:MOST_WAVES])
    more = " + …" if len(result.waves) > MOST_WAVES else ""
    count = tally_words(len(result.waves), "wave")
    return f"{result.total_responses}{lost}, in {count} ({lengths}{more})"
