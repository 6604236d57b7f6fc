"""The tools of a user, as in the module that a worker is told of."""

import time
from datetime import date
from typing import Annotated

from pydantic import BaseModel, Field

from activities.tools import tool


class Stay(BaseModel):
    """A stay in a hotel."""

    city: str
    nights: int = Field(ge=1)


@tool(read_only=True, idempotent=True, keys=("city:{city}",))
async def weather(city: str, on: date, days: Annotated[int, Field(le=7)] = 1) -> dict[str, object]:
    """Forecast the weather in a city."""
    return {"city": city, "weekday": f"{on:%A}", "days": days}


@tool()
def book(stay: Stay) -> str:
    """Book a hotel."""
    return f"{stay.nights} nights in {stay.city}"


@tool(timeout_seconds=5)
def sleep(seconds: float) -> str:
    """Sleep, in a thread."""
    time.sleep(seconds)
    return "rested"


@tool()
async def crash() -> str:
    """Divide by zero."""
    return str(1 / 0)


def no_tool() -> None:
    """Do nothing."""
