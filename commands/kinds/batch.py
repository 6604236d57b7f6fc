"""What the command line knows of batches of runs."""

from typing import Any

from rich.console import Console

from commands.kinds.kind import Kind
from commands.rendering.batch import BatchLive, print_progress, print_result
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchProgress, BatchResult


class Batch(Kind[BatchRequest, BatchProgress, BatchResult]):
    """`calibrate` and `compare`: many runs over the same items, each with a result of its own."""

    workflow = "BatchWorkflow"
    doing = "making runs"
    request = BatchRequest
    progress = BatchProgress
    result = BatchResult

    def live(self, console: Console, request: BatchRequest | None, run: str) -> BatchLive:
        """Show how many runs have ended."""
        del request, run
        return BatchLive(console)

    def print_result(self, result: BatchResult) -> None:
        """Print why it ended, what became of its runs, and what they cost."""
        print_result(Console(), result)

    def print_standing(
        self, progress: BatchProgress, decisions: list[Any], *, ended: bool = False
    ) -> None:
        """Print how many runs have ended, and what they cost."""
        del decisions
        print_progress(Console(stderr=ended), progress)

    def further(self, run: str) -> str:
        """Say which command knows what the runs show together."""
        again = f"run the same calibrate or compare command again with --id {run}"
        return f"For the findings, {again}."
