"""What a worker keeps of the calls that it records."""

import gc

from opentelemetry.metrics import Meter

from activities.language_model.layers import ObservedModel
from tests.activities.scripted_calls import call
from tests.scripted import ScriptedModel


def meters() -> int:
    """Count the meters that are in memory."""
    return sum(issubclass(type(one), Meter) for one in gc.get_objects())


async def test_calls_leave_no_meters_behind() -> None:
    """Without a provider OpenTelemetry's API keeps each meter that it was asked for."""
    model, before = ObservedModel(ScriptedModel(compare=["yes"] * 3), "m"), meters()

    for _ in range(3):
        await model.complete(call())

    assert meters() == before
