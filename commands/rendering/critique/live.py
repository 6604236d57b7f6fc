"""Following a run: each draft on its own line, and when a person is asked."""

from collections.abc import Sequence

from rich.console import Console

from commands.rendering.critique.lines import print_decision
from commands.rendering.critique.standing import step_words
from commands.rendering.waiting import print_waiting
from reflection.critique.result import Decision, Draft, Progress, ReflectOnResultResult
from reflection.critique.words.wording import draft_of


class DraftsLive:
    """What of a run is on the screen already."""

    def __init__(self, console: Console, run: str) -> None:
        self._console = console
        self._run = run
        self._decided = 0
        self._drafts: set[int] = set()

    def busy(self, progress: Progress) -> str:
        """Say in a few words what is under way."""
        return step_words(progress).lower()

    def show(self, progress: Progress, decisions: Sequence[Decision]) -> None:
        """Print the decisions that are new, each with its draft, and who is waited for."""
        new = len(decisions) > self._decided
        self._print(progress.drafts, decisions)
        if new and decisions[-1].waits_for_review:
            print_waiting(self._console, self._run, progress.review_until)

    def end(self, result: ReflectOnResultResult) -> None:
        """Print what the last look did not yet show."""
        self._print(result.drafts, result.decisions)

    def _print(self, drafts: Sequence[Draft], decisions: Sequence[Decision]) -> None:
        for decision in decisions[self._decided :]:
            draft = draft_of(drafts, decision.draft)
            again = draft is not None and draft.index in self._drafts
            print_decision(self._console, decision, draft, again=again)
            self._drafts |= {draft.index} if draft else set()
        self._decided = max(self._decided, len(decisions))
