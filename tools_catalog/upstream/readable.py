"""What the SDK's client would refuse whole, in a shape that it takes; what came is found again behind it.

It checks an answer as one: of a list with a single definition that breaks the protocol nothing would be left. Here each
definition is looked at by itself (`listing`), so the one is refused and the others are served.
"""

from __future__ import annotations

from typing import Any, Final

from tools_catalog.upstream.listing import METHODS

Json = Any

_CAME: Final = "mcphub/listed"
_MEMBERS: Final = tuple(member for _, member in METHODS.values())


def make(message: Any) -> None:
    """Change a message of the SDK's in place, where that is needed."""
    result = getattr(getattr(message, "message", None), "result", None)
    if not isinstance(result, dict) or "content" in result:
        return
    if isinstance(result.get("task"), dict) or result.get("resultType") == "task":
        result["content"] = []  # a task in the place of a tool's result
        return
    for member in _MEMBERS:
        if isinstance(result.get(member), list):
            result[_CAME], result[member] = result[member], []


def listed(page: dict[str, Json], member: str) -> list[Json]:
    """Give what a page of a list holds, as it came."""
    found = page.get(_CAME, page.get(member))
    return found if isinstance(found, list) else []
