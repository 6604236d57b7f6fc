"""Tools of your own: mull dev --tools examples/own_tools.py --approve examples/tool-rules.json"""

from typing import Annotated

from pydantic import Field

from activities.tools import tool

STOCK = {"bolt": 120, "nut": 0}


@tool(read_only=True, idempotent=True, keys=("part:{part}",))
async def stock(part: Annotated[str, Field(description="Such as bolt or nut.")]) -> int:
    """Tell how many of a part are in stock."""
    return STOCK[part]


@tool(keys=("part:{part}",))
async def order(part: str, count: Annotated[int, Field(ge=1, le=1_000)]) -> str:
    """Order so many of a part."""
    return f"ordered {count} of {part}"
