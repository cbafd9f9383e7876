"""Rows of a hub whose cards are read."""

from __future__ import annotations

from django.db import transaction


@transaction.atomic  # so that no worker reads the closed toolset before its group
def make_toolsets() -> None:
    """Make a toolset for everybody, one of a group, one of a workspace, and one that is off."""
    from django.contrib.auth.models import Group

    from sessions_app.models import McpWorkspace
    from tools_catalog.models import McpToolset

    words = "Orders, invoices and returns of the shop. " * 5
    McpToolset.objects.create(slug="sales", title="Sales desk", description=words)
    McpToolset.objects.create(slug="plain")
    McpToolset.objects.create(slug="closed").groups.add(Group.objects.create(name="closed ones"))
    team = McpWorkspace.objects.create(slug="team", title="Team")
    McpToolset.objects.create(slug="teams", workspace=team)
    McpToolset.objects.create(slug="off", enabled=False)


def close(slug: str) -> None:
    """Restrict a toolset to one group."""
    from django.contrib.auth.models import Group

    from tools_catalog.models import McpToolset

    McpToolset.objects.get(slug=slug).groups.add(Group.objects.get(name="closed ones"))


def open_again(slug: str) -> None:
    """Let everybody have a toolset."""
    from tools_catalog.models import McpToolset

    McpToolset.objects.get(slug=slug).groups.clear()
