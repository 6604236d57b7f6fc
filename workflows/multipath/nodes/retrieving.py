"""The node `retrieve`: D, where the request names documents."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.documents.retrieval import DocumentActivities, Retrieval, RetrievalTask
    from activities.language_model.port import TASK_QUEUE
    from reflection.multipath.loop import Run
    from workflows import failures
    from workflows.calls import Calls
    from workflows.multipath.nodes.asking import Ended, lost
    from workflows.timeouts import retrieval_times


class Retrieving:
    """The search for passages that fit the prompt."""

    def __init__(self, run: Run, calls: Calls) -> None:
        self._run = run
        self._calls = calls

    async def retrieve(self) -> Ended | None:
        """Search the documents; without any D stays empty.

        Raises ApplicationError where they can't be searched: no answer shall stand on less.
        """
        if self._run.request.docs is None:
            return None
        reply = await self._calls.reply(self._start(self._run.request.docs))
        if reply.error is not None:
            raise failures.permanent(reply.error) or lost(failures.explain(reply.error)).failure
        if reply.value is None:
            return Ended(None)
        self._pay(reply.value)
        self._run.retrieved(reply.value.passages)
        for each in (*reply.value.warnings, *reply.value.left_out):
            self._run.warn(each)
        return None

    def _pay(self, found: Retrieval) -> None:
        """Count what the embedding model cost; where none was asked no call was lost either."""
        if self._run.request.embedding_model is not None:
            lost = found.attempts - 1 + found.failed
            paid = found.spending is not None
            self._run.ledger.pay("retrieving", found.spending, lost + paid)

    def _start(self, docs: str) -> workflow.ActivityHandle[Retrieval]:
        request = self._run.request
        times = retrieval_times(request.call_timeout_seconds, request.max_attempts)
        return workflow.start_activity_method(
            DocumentActivities.retrieve,
            RetrievalTask(
                prompt=request.prompt,
                docs=docs,
                passages=request.passages,
                embedding_model=request.embedding_model,
                timeout_seconds=request.call_timeout_seconds,
            ),
            task_queue=TASK_QUEUE,
            summary=f"up to {request.passages} passages",
            **times.options,
        )
