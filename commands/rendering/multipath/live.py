"""Following a run: each node on its own line, and when a person is asked."""

from collections.abc import Sequence

from rich.console import Console

from commands.rendering.multipath.decisions import print_critiques, print_decision
from commands.rendering.multipath.standing import step_words
from commands.rendering.multipath.wording import draft_of
from commands.rendering.waiting import print_waiting
from reflection.multipath.result import Decision, MultiPathResult, Progress
from reflection.words.blocks import bar

BAR_COLUMNS = 24


class NodesLive:
    """What of a run is on the screen already."""

    def __init__(self, console: Console, run: str) -> None:
        self._console = console
        self._run = run
        self._decided = 0
        self._reflected: set[int] = set()

    def busy(self, progress: Progress) -> str:
        """Say in a few words what is under way."""
        return step_words(progress)

    def show(self, progress: Progress, decisions: Sequence[Decision]) -> None:
        """Print the decisions that are new, and who is waited for."""
        new = len(decisions) > self._decided
        self._print(progress, decisions)
        if new and decisions[-1].waits_for_review:
            print_waiting(self._console, self._run, progress.review_until)

    def end(self, result: MultiPathResult) -> None:
        """Print what the last look did not yet show."""
        self._print(result, result.decisions)

    def _print(self, run: Progress | MultiPathResult, decisions: Sequence[Decision]) -> None:
        for decision in decisions[self._decided :]:
            print_decision(self._console, decision, run.routing)
            draft = draft_of(run.drafts, decision.draft)
            # A person's decision is about a draft whose critiques stand above already.
            if (
                decision.after == "reflect_on_report"
                and draft
                and draft.index not in self._reflected
            ):
                self._reflected.add(draft.index)
                print_critiques(self._console, draft)
        self._decided = max(self._decided, len(decisions))


def indexing_words(details: Sequence[object]) -> str | None:
    """Write files done of files in all, the two details of a heartbeat; None where there are none.

    A worker of another version may say something else, which is not shown.
    """
    counts = [each for each in details if isinstance(each, int) and not isinstance(each, bool)]
    if len(counts) < 2 or counts[1] < 1:
        return None
    done, total = min(counts[0], counts[1]), counts[1]
    return f"Reading documents {bar(done / total, BAR_COLUMNS)} {done:,} of {total:,} files"
