"""A workflow of a user's own that imports the package alone."""

from temporalio import workflow

import mull


@workflow.defn
class Plain:
    """Asks by a request, and tells of the record."""

    @workflow.run
    async def run(self, question: str) -> list[str | None]:
        request = mull.SelfConsistencyRequest(question=question, max_responses=1)
        found = await mull.workflow.ask(request)
        assert isinstance(found, mull.SelfConsistencyResult)
        return [found.final_answer, found.id]
