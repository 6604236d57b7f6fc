"""Following a run: each wave on its own line once its answers are counted."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from commands.rendering.convergence.waves import print_wave
from commands.rendering.waiting import print_waiting
from reflection.sampling.loop import standing
from reflection.sampling.request import SelfConsistencyRequest
from reflection.sampling.result import Decision, Progress, SelfConsistencyResult


class WavesLive:
    """What of a run is on the screen already."""

    def __init__(self, console: Console, request: SelfConsistencyRequest, run: str) -> None:
        self._console = console
        self._request = request
        self._run = run
        self._waves = 0
        self._waits = False

    def busy(self, progress: Progress) -> str:
        """Say in a few words what is under way."""
        if progress.needs_review:
            return "waiting for a person's review"
        return f"wave {progress.wave}: {progress.in_flight} calls under way"

    def show(self, progress: Progress, decisions: Sequence[Decision]) -> None:
        """Print the waves that are new, and who is waited for."""
        self._print(_complete(decisions, progress.waves))
        if progress.needs_review and not self._waits:
            print_waiting(self._console, self._run, progress.review_until)
        self._waits = progress.needs_review

    def end(self, result: SelfConsistencyResult) -> None:
        """Print what the last look did not yet show."""
        self._print(result.decisions)

    def _print(self, decisions: Sequence[Decision]) -> None:
        last = {each.wave: number for number, each in enumerate(decisions) if each.wave}
        for wave, number in sorted(last.items()):
            if wave > self._waves:
                until = list(decisions[: number + 1])
                print_wave(self._console, standing(self._request, until), until)
        self._waves = max([self._waves, *last])


def _complete(decisions: Sequence[Decision], waves: Sequence[int]) -> list[Decision]:
    """Leave out the newest wave while its answers are still being counted."""
    counted = Counter(each.wave for each in decisions if each.index is not None)
    if not decisions or decisions[-1].stop:
        return list(decisions)
    full = {wave for wave, length in enumerate(waves, 1) if counted[wave] >= length}
    return [each for each in decisions if each.wave in full]
