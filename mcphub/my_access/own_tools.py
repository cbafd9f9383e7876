"""The tools that the person's clients find at the hub's address, with what each does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from mcphub.my_access.parts import Part
from mcphub.process import runtime
from sessions_app.caller import person_of
from sessions_app.kit.shown import clipped
from tools_catalog.catalog.selection import Tool

_MOST = 500
_LONGEST = 240


def _rows(request: HttpRequest) -> Mapping[str, object]:
    hub = runtime.current()
    if hub is None:  # a process that serves no clients
        return {"tools": None, "more_tools": 0}
    person = person_of(request.user)
    found = [
        tool
        for tool in hub.configuration.catalog.tools.values()
        if tool.enabled and tool.is_for_models and tool.visible_to(person)
    ]
    return {"tools": [_line(tool) for tool in found[:_MOST]], "more_tools": max(0, len(found) - _MOST)}


def _line(tool: Tool) -> dict[str, object]:
    definition: dict[str, Any] = tool.definition
    hints = definition.get("annotations") or {}
    return {
        "name": tool.name,
        "title": clipped(definition.get("title") or "", 100),
        "words": clipped(" ".join((definition.get("description") or "").split()), _LONGEST),
        "reads": tool.read_only,
        "destroys": not tool.read_only and hints.get("destructiveHint") is not False,
    }


PART = Part("tools", "me/tools.html", _rows)
