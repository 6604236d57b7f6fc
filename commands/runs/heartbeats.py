"""What an activity that is under way has said of itself by its heartbeat."""

from typing import Any

from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from connection import DATA_CONVERTER


async def last_heartbeat(handle: WorkflowHandle[Any, Any], activity: str) -> list[Any]:
    """Return the details of the newest heartbeat of a pending activity of this type, if any."""
    try:
        described = await handle.describe()
    except RPCError:
        return []
    for each in described.raw_description.pending_activities:
        if each.activity_type.name == activity:
            return await DATA_CONVERTER.decode(list(each.heartbeat_details.payloads))
    return []
