"""Tools with results of many sizes and kinds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from tools_catalog.backends.python import tool
from tools_catalog.call.base import ToolResult


class Author(BaseModel):
    name: str
    mail: str


class PullRequest(BaseModel):
    id: int
    title: str
    body: str
    author: Author


class PullRequests(BaseModel):
    values: Annotated[list[PullRequest], Field(description="The newest first.")]
    total: int


@tool(read_only=True, open_world=False)
async def list_pulls(count: int, words: int = 40) -> PullRequests:
    """List pull requests."""
    values = [
        PullRequest(
            id=number,
            title=f"Change number {number}",
            body=f"It changes {'much ' * words}.",
            author=Author(name=f"person{number}", mail=f"person{number}@example.org"),
        )
        for number in range(count)
    ]
    return PullRequests(values=values, total=count)


@tool(read_only=True, open_world=False)
async def current_pulls() -> PullRequests:
    """List the pull requests of now."""
    return await list_pulls(100)


@tool(read_only=True, open_world=False)
async def story(lines: int) -> ToolResult:
    """Tell a long story, in lines of text."""
    text = "\n".join(f"Line {number}: and so it went on." for number in range(lines))
    return ToolResult(content=[{"type": "text", "text": text}])


@tool(read_only=True, open_world=False)
async def bulk(lines: int) -> ToolResult:
    """Return many lines, and take no more memory than they do."""
    return ToolResult(content=[{"type": "text", "text": "This line is one of a great many, all alike.\n" * lines}])
