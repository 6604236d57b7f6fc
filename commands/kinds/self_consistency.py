"""What the command line knows of runs of self-consistency."""

from rich.console import Console

from commands.kinds.answering import Answering, Waiting
from commands.rendering.convergence import (
    WavesLive,
    decisions_table,
    print_progress,
    print_result,
    print_review,
)
from commands.report.convergence import report_html
from commands.report.document import RunFacts
from reflection.sampling.request import SelfConsistencyRequest
from reflection.sampling.result import Decision, Progress, SelfConsistencyResult


class SelfConsistency(Answering[SelfConsistencyRequest, Progress, Decision, SelfConsistencyResult]):
    """`ask`: a question, waves of answers, and a vote."""

    workflow = "SelfConsistencyWorkflow"
    command = "ask"
    doing = "asking"
    request = SelfConsistencyRequest
    progress = Progress
    decision = Decision
    result = SelfConsistencyResult
    reviews = ("accept", "replace")

    def subject(self, request: SelfConsistencyRequest) -> str:
        """Return the question."""
        return request.question

    def live(
        self, console: Console, request: SelfConsistencyRequest | None, run: str
    ) -> WavesLive | None:
        """Show each wave as it is counted; without the request no decision can be placed."""
        return WavesLive(console, request, run) if request is not None else None

    def print_result(self, result: SelfConsistencyResult) -> None:
        """Print the answer and what it rests on."""
        print_result(Console(), result)

    def print_decisions(self, result: SelfConsistencyResult) -> None:
        """Print every decision."""
        Console().print(decisions_table(result.decisions))

    def print_standing(
        self, progress: Progress, decisions: list[Decision], *, ended: bool = False
    ) -> None:
        """Print the wave and every decision so far."""
        print_progress(Console(stderr=ended), progress, decisions)

    def below(self, result: SelfConsistencyResult, bar: float) -> str | None:
        """Hold the confidence against a bar.

        A confidence that rests on fewer answers than a rule would decide on meets no bar.
        """
        if result.consensus_confidence < bar - 1e-9:
            return f"confidence {result.consensus_confidence:.2f} is below {bar:g}"
        if result.cut_short:
            return f"a run that was cut short can't show a confidence of {bar:g}"
        return None

    def conclusive(self, result: SelfConsistencyResult) -> bool:
        """Tell whether the answers support a conclusion, or a person does."""
        if result.stop_reason in {"accepted_by_person", "replaced_by_person"}:
            return True
        return result.quorum_met and result.stop_reason != "no_consensus"

    def page(self, result: SelfConsistencyResult, run: RunFacts) -> str:
        """Write curves, votes, decisions and responses."""
        return report_html(result, run)

    def waiting(self, progress: Progress, decisions: list[Decision]) -> Waiting | None:
        """Tell whether a person is asked about an uncertain answer."""
        del decisions
        return Waiting(progress.review_until) if progress.needs_review else None

    def print_review(self, progress: Progress) -> None:
        """Print the leading answer and the votes."""
        print_review(Console(), progress)

    def review_document(self, progress: Progress) -> dict[str, object]:
        """Put the question, the leading answer and the votes together."""
        shown = {"question", "leader", "confidence", "normalized_entropy", "answer_distribution"}
        return progress.model_dump(mode="json", include=shown)

    def replacement(self, text: str) -> str:
        """Return an answer, which does not end with a file's line end."""
        return text.strip()
