"""Tools for programs to call."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from tools_catalog.backends.python import ToolError, tool


class Order(BaseModel):
    number: int
    price: int
    note: str


class Orders(BaseModel):
    orders: Annotated[list[Order], Field(description="In the order of their numbers.")]


@tool(read_only=True, open_world=False)
async def list_orders(page: Annotated[int, Field(ge=1, le=50)] = 1) -> Orders:
    """List ten orders of a page."""
    first = (page - 1) * 10
    return Orders(orders=[Order(number=at, price=at * 3, note="as agreed " * 20) for at in range(first, first + 10)])


@tool(open_world=False)
async def cancel_order(number: int) -> str:
    """Cancel an order."""
    if number > 100:
        raise ToolError(f"There is no order {number}.")
    return f"Order {number} is cancelled."


@tool(read_only=True, open_world=False)
async def wait_for_order() -> str:
    """Wait for an order that never comes."""
    await asyncio.Event().wait()
    return ""
