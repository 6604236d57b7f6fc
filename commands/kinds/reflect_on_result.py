"""What the command line knows of runs of reflection."""

from rich.console import Console

from commands.kinds.answering import Answering, Waiting
from commands.kinds.texts import print_text
from commands.rendering.critique import (
    DraftsLive,
    decisions_table,
    print_details,
    print_progress,
    print_review,
)
from commands.report.critique import report_html
from commands.report.document import RunFacts
from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.result import Decision, Progress, ReflectOnResultResult
from reflection.critique.words.wording import best_of, waits


class ReflectOnResult(Answering[ReflectOnResultRequest, Progress, Decision, ReflectOnResultResult]):
    """`reflect`: a query, drafts with their evaluations, and the best of them."""

    workflow = "ReflectOnResultWorkflow"
    command = "reflect"
    doing = "reflecting"
    request = ReflectOnResultRequest
    progress = Progress
    decision = Decision
    result = ReflectOnResultResult
    reviews = ("accept", "revise", "replace", "score")
    keeps_drafts = True

    def subject(self, request: ReflectOnResultRequest) -> str:
        """Return the query."""
        return request.query

    def live(
        self, console: Console, request: ReflectOnResultRequest | None, run: str
    ) -> DraftsLive:
        """Show each draft as it is evaluated."""
        del request
        return DraftsLive(console, run)

    def print_result(self, result: ReflectOnResultResult) -> None:
        """Print the best draft alone on standard output, all else on standard error."""
        if result.draft is not None:
            print_text(result.draft)
        print_details(Console(stderr=True), result)

    def print_decisions(self, result: ReflectOnResultResult) -> None:
        """Print every decision on standard error, where the details are."""
        Console(stderr=True).print(decisions_table(result.decisions))

    def print_standing(
        self, progress: Progress, decisions: list[Decision], *, ended: bool = False
    ) -> None:
        """Print the step, the drafts and the decisions so far."""
        print_progress(Console(stderr=ended), progress, decisions)

    def below(self, result: ReflectOnResultResult, bar: float) -> str | None:
        """Hold the score against a bar; a draft without a score meets none."""
        if result.score is None:
            return f"no score shows that the draft reaches {bar:g}"
        if result.score < bar - 1e-9:
            return f"score {result.score:.2f} is below {bar:g}"
        return None

    def conclusive(self, result: ReflectOnResultResult) -> bool:
        """Tell whether there is a draft at all."""
        return result.draft is not None

    def page(self, result: ReflectOnResultResult, run: RunFacts) -> str:
        """Write the best draft, the scores and every evaluation."""
        return report_html(result, run)

    def waiting(self, progress: Progress, decisions: list[Decision]) -> Waiting | None:
        """Tell whether a person is asked about a draft with a low score."""
        return Waiting(progress.review_until) if waits(decisions) else None

    def print_review(self, progress: Progress) -> None:
        """Print the best draft with its evaluation."""
        print_review(Console(), progress)

    def review_document(self, progress: Progress) -> dict[str, object]:
        """Put the query, the best draft and its evaluation together."""
        best = best_of(progress)
        return {
            "query": progress.query,
            "score_threshold": progress.score_threshold,
            "draft": best.model_dump(mode="json") if best else None,
        }

    def so_far(self, progress: Progress) -> str | None:
        """Return the best draft so far."""
        best = best_of(progress)
        return best.text if best else None
