"""Two teams with rows of each kind, and people of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from django.contrib.auth.models import Group
from django.test import Client

from mcphub.features.call_rules.models import McpPolicyRule
from sessions_app.models import ApiKey, McpWorkspace
from tests.factories import McpToolDefinitionFactory, McpToolInvocationFactory, McpToolsetFactory, UserFactory

OTHERS = "theirs-alone"
"""Stands in the name of everything that belongs to the other workspace."""


def workspace(slug: str) -> McpWorkspace:
    row = McpWorkspace.objects.create(slug=slug)
    for role in ("members", "auditors", "operators"):
        getattr(row, role).add(Group.objects.create(name=f"{slug} {role}"))
    return row


def person(*groups: str, **fields: Any) -> Client:
    user = UserFactory(**fields)
    user.groups.set(Group.objects.filter(name__in=groups))
    client = Client()
    client.force_login(user)
    client.user = user  # type: ignore[attr-defined]
    return client


def two_workspaces() -> SimpleNamespace:
    """Make two workspaces with a row of each kind, and rows of none."""
    rows: dict[str, Any] = {}
    for slug, word in (("ours", "ours"), (OTHERS, OTHERS)):
        own = workspace(slug)
        mark = word.replace("-", "_")
        rows[slug] = SimpleNamespace(
            workspace=own,
            tool=McpToolDefinitionFactory(name=f"{mark}.tool", workspace=own),
            toolset=McpToolsetFactory(slug=f"{word}-set", workspace=own, patterns="*"),
            rule=McpPolicyRule.objects.create(name=f"{word}-rule", effect="deny", workspace=own),
            key=ApiKey.issue(f"{word} key", workspace=own)[0],
            call=McpToolInvocationFactory(tool_name=f"{mark}.tool", workspace=own.slug, caller_label=f"{word} caller"),
        )
    McpToolDefinitionFactory(name="everybodys.tool")
    McpToolsetFactory(slug="hub-set", patterns="*")
    McpToolInvocationFactory(tool_name="everybodys.tool", caller_label="hub caller")
    return SimpleNamespace(ours=rows["ours"], theirs=rows[OTHERS])
