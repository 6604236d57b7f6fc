"""Reading what each method gave, each kind of run with its own kind of result."""

from temporalio.client import Client

from commands.measuring.batches.reading import Read, read_runs
from reflection.batch.result import BatchResult
from reflection.critique.result import ReflectOnResultResult
from reflection.sampling.result import SelfConsistencyResult

SAMPLED = "self_consistency"


async def read_answers(client: Client, batch: BatchResult) -> list[Read]:
    """Read the results of all runs of a batch, in their order."""
    sampled = [each for each in batch.runs if each.variant == SAMPLED]
    drafted = [each for each in batch.runs if each.variant != SAMPLED]
    found = [
        *await read_runs(client, sampled, SelfConsistencyResult),
        *await read_runs(client, drafted, ReflectOnResultResult),
    ]
    by_id = {each.run.workflow_id: each for each in found}
    return [by_id[each.workflow_id] for each in batch.runs]
