"""Workflows of a user's own, as a user writes them: nothing here is set up for Mull."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError

import mull.workflow
from mull.sampling.request import SelfConsistencyRequest


@workflow.defn
class Calling:
    """Calls one of Mull's loops, and returns its record as a dictionary."""

    @workflow.run
    async def run(self, loop: str, subject: str, given: dict[str, Any]) -> dict[str, Any]:
        if "seconds" in given:
            given["execution_timeout"] = timedelta(seconds=given.pop("seconds"))
        record = await getattr(mull.workflow, loop)(subject, **given)
        return {"type": type(record).__name__, "id": record.id, **record.model_dump(mode="json")}


@workflow.defn
class Careful:
    """Asks by a request of its own making, twice at once, and goes on after a failure."""

    @workflow.run
    async def run(self, question: str) -> list[str | None]:
        request = SelfConsistencyRequest(question=question, preset="thrifty")
        both = await asyncio.gather(mull.workflow.ask(request), mull.workflow.ask(request))
        try:
            await mull.workflow.ask(question, model="lost", max_responses=1)
        except ChildWorkflowError as error:
            cause = str(getattr(error.cause, "type", error.cause))
        return [*(found.final_answer for found in both), cause]


@workflow.defn
class Hasty:
    """Gives up waiting after a second, in both ways that asyncio has."""

    @workflow.run
    async def run(self, question: str) -> list[str]:
        said = []
        try:
            await asyncio.wait_for(mull.workflow.ask(question), 1)
        except TimeoutError:
            said.append("too late")
        try:
            async with asyncio.timeout(1):
                await mull.workflow.ask(question)
        except TimeoutError:
            said.append("too late again")
        return said


@workflow.defn
class Foreign:
    """Calls the Nexus service as one in any language does, without Mull's package."""

    @workflow.run
    async def run(self, endpoint: str, operation: str, request: Any) -> Any:
        client = workflow.create_nexus_client(service="mull", endpoint=endpoint)
        return await client.execute_operation(operation, request, output_type=dict)
