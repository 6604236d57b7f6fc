"""A worker of a user's own as a program, in the namespaces of its arguments."""

import asyncio
import os
import sys

from temporalio.client import Client
from temporalio.worker import Worker

from tests.workflows.own_flows import Calling

QUEUE = "own-killed"


async def serve(namespace: str) -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], namespace=namespace)
    await Worker(client, task_queue=QUEUE, workflows=[Calling]).run()


async def main() -> None:
    await asyncio.gather(*map(serve, sys.argv[1:]))


if __name__ == "__main__":
    asyncio.run(main())
