"""What the command line knows of runs of the multi-path agent."""

import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from temporalio.client import WorkflowHandle

from activities.sandbox import port
from commands.kinds.answering import Answering, Waiting
from commands.kinds.texts import print_text, with_newline
from commands.rendering.multipath import (
    NodesLive,
    decisions_table,
    indexing_words,
    print_details,
    print_progress,
    print_review,
)
from commands.rendering.multipath.wording import still_open, thing_words
from commands.report.document import RunFacts
from commands.report.multipath import report_html
from commands.runs.heartbeats import last_heartbeat
from commands.starting.keeping import write_whole
from reflection.multipath.loop import kept
from reflection.multipath.request import MultiPathRequest
from reflection.multipath.result import Decision, MultiPathResult, Progress
from reflection.multipath.words.wording import waits


class MultiPath(Answering[MultiPathRequest, Progress, Decision, MultiPathResult]):
    """`agent`: a prompt, a path, drafts with their critiques or errors, and one of them.

    `out` is the file that a report or code shall go to, in the place of standard output.
    """

    workflow = "MultiPathWorkflow"
    command = "agent"
    doing = "starting the agent"
    request = MultiPathRequest
    progress = Progress
    decision = Decision
    result = MultiPathResult
    reviews = ("accept", "revise", "replace")
    keeps_drafts = True
    unchecked = "nobody tests or reflects on what a person wrote"

    def __init__(self, out: Path | None = None) -> None:
        self._out = out

    def queues(self, request: MultiPathRequest) -> tuple[str, ...]:
        """List the task queues; code is tested on one of its own."""
        known = super().queues(request)
        return (*known, port.TASK_QUEUE) if request.mode == "code" else known

    def perhaps(self, request: MultiPathRequest) -> tuple[str, ...]:
        """List the queue of code where nobody knows yet whether there will be any."""
        return (port.TASK_QUEUE,) if request.mode is None else ()

    def subject(self, request: MultiPathRequest) -> str:
        """Return the prompt."""
        return request.prompt

    def live(self, console: Console, request: MultiPathRequest | None, run: str) -> NodesLive:
        """Show each node as it ends."""
        del request
        return NodesLive(console, run)

    def print_result(self, result: MultiPathResult) -> None:
        """Print the report or the code alone on standard output, all else on standard error."""
        if result.output is not None and self._out is None:
            self.print_draft(result.output)
        print_details(Console(stderr=True), result)

    async def far(self, handle: WorkflowHandle[Any, Any], progress: Progress) -> str | None:
        """Say how many documents are read, where there are many."""
        if progress.step != "retrieve":
            return None
        return indexing_words(await last_heartbeat(handle, "retrieve"))

    def keep(self, result: MultiPathResult) -> None:
        """Write the report or the code to its file, whole, where there is one."""
        if self._out is None:
            return
        thing = thing_words(result.mode)
        if result.output is None:
            sys.stderr.write(f"{self._out} is not written: there is no {thing}.\n")
            return
        write_whole(self._out, with_newline(result.output))
        sys.stderr.write(f"wrote the {thing} to {self._out}\n")

    def print_decisions(self, result: MultiPathResult) -> None:
        """Print every decision on standard error, where the details are."""
        Console(stderr=True).print(decisions_table(result.decisions))

    def print_standing(
        self, progress: Progress, decisions: list[Decision], *, ended: bool = False
    ) -> None:
        """Print the step, the drafts and the decisions so far."""
        known = progress.model_copy(update={"in_flight": 0}) if ended else progress
        print_progress(Console(stderr=ended), known, decisions)

    def below(self, result: MultiPathResult, bar: float) -> str | None:
        """Say what is open in a result: whatever the bar, it asks for one with nothing open."""
        del bar
        still = still_open(result)
        return f"the result is open ({still}) and not closed" if still else None

    def conclusive(self, result: MultiPathResult) -> bool:
        """Tell whether there is a report or code at all."""
        return result.output is not None

    def page(self, result: MultiPathResult, run: RunFacts) -> str:
        """Write what was made, the walk from node to node, and each draft with its K or E."""
        return report_html(result, run)

    def waiting(self, progress: Progress, decisions: list[Decision]) -> Waiting | None:
        """Tell whether a person is asked about a result that is open."""
        return Waiting(progress.review_until) if waits(decisions) else None

    def print_review(self, progress: Progress) -> None:
        """Print the draft that would be kept, with what is open in it."""
        print_review(Console(), progress)

    def review_document(self, progress: Progress) -> dict[str, object]:
        """Put the prompt, the path, the sources and the draft that would be kept together."""
        best = kept(progress.drafts)
        shown = {"prompt", "mode", "sources", "suite", "quarantined"}
        known: dict[str, object] = progress.model_dump(mode="json", include=shown)
        return {**known, "draft": best.model_dump(mode="json") if best else None}

    def so_far(self, progress: Progress) -> str | None:
        """Return the draft that would be kept now."""
        best = kept(progress.drafts)
        return best.text if best else None

    def print_draft(self, draft: str) -> None:
        """Print a report or code on standard output; it ends with one line end."""
        print_text(with_newline(draft))

    def unwritten(self, run: str) -> str | None:
        """Say that no file was written, where one was asked for, and how to get it."""
        if self._out is None:
            return None
        there = f"starter.py show {run} > {shlex.quote(str(self._out))}"
        return f"{self._out} is not written; once the run has ended: {there}"
