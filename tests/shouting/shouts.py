"""The tool `loud` of the kind `shout`, as an operator makes it in the admin and finds it there and in a bundle."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from tools_catalog.bundles import bundle
from tools_catalog.models import McpToolDefinition

_LIST = "/admin/tools_catalog/mcptooldefinition/"


def submit_form(mark: str) -> tuple[int, str]:
    """Add the tool, or change it where it is there; give the answer's status and page."""
    form = {
        "name": "loud",
        "title": "",
        "description": "Says it loudly.",
        "output_schema": "{}",
        "backend": "shout",
        "input_schema": json.dumps({"type": "object", "properties": {"text": {"type": "string"}}}),
        "configuration": "",
        "timeout_seconds": "30",
        "meta": "{}",
        "requirements": "{}",
        "task_support": "forbidden",
        "enabled": "on",
        "change_reason": "",
        "mark": mark,
    }
    tool = McpToolDefinition.objects.filter(name="loud").first()
    answer = _client().post(f"{_LIST}{tool.pk}/change/" if tool else f"{_LIST}add/", form)
    return answer.status_code, answer.content.decode()


def look() -> dict[str, Any]:
    tool = McpToolDefinition.objects.get(name="loud")
    tool.full_clean()
    bundled = bundle.dump()
    [entry] = [entry for entry in bundled["tools"] if entry["name"] == "loud"]
    again = bundle.load(bundled, reason="again", dry_run=True)
    return {
        "list": _client().get(f"{_LIST}?backend__exact=shout").content.decode(),
        "page": _client().get(f"{_LIST}{tool.pk}/change/").content.decode(),
        "entry": entry,
        "refused": again.refused,
        "unchanged": again.unchanged,
        "versions": tool.versions.count(),
        "label": tool.get_backend_display(),
    }


def _client() -> Client:
    client = Client(headers={"host": "127.0.0.1"})
    people = get_user_model().objects
    person, _ = people.get_or_create(username="kinds", defaults={"is_staff": True, "is_superuser": True})
    client.force_login(person)
    return client
