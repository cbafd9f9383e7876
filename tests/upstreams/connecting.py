"""Connections to upstreams as their rows: made as a form makes them, and as the admin shows them."""

from __future__ import annotations

from typing import Any


def connect(words: dict[str, Any]) -> None:
    """Add a connection; of one that runs a child, `profile` has the words of the launch profile."""
    from tools_catalog.models import LaunchProfile, McpConnection

    profile = words.pop("profile", None)
    if profile is not None:
        words["profile"] = LaunchProfile(**profile)
        words["profile"].full_clean()
        words["profile"].save()
    # With a full stop, which operators may still write; names without one are tested in test_renaming.
    row = McpConnection(**{"prefix": f"{words['slug']}.", **words})
    row.full_clean()
    row.save()


def connect_at_once(connections: list[dict[str, Any]]) -> None:
    """Add connections of which the hub hears at once."""
    from django.db import transaction

    with transaction.atomic():
        for words in connections:
            connect(words)


def unknown(slugs: list[str]) -> int:
    """Count connections whose tools are not known, and may soon be."""
    from tools_catalog.models import McpConnection

    rows = McpConnection.objects.filter(slug__in=slugs, discovered_at=None)
    return sum(row.status != "error" for row in rows)


def left(slugs: list[str]) -> dict[str, str]:
    """Return the connections whose tools are not known, with the error of each."""
    from tools_catalog.models import McpConnection

    rows = McpConnection.objects.filter(slug__in=slugs, discovered_at=None).prefetch_related("links")
    return {row.slug: " ".join([row.status, *(link.error_message for link in row.links.all())]) for row in rows}


def refresh(slug: str) -> None:
    """Have the hub list what a connection offers, now."""
    from sessions_app import bus

    bus.publish(bus.UPSTREAM_REFRESH, slug)


def row(slug: str) -> dict[str, Any]:
    from tools_catalog.models import McpConnection

    found = McpConnection.objects.get(slug=slug)
    link = found.links.first()
    return {
        "status": found.status,
        "discovered": found.discovered_at is not None,
        "links": found.links.count(),
        "error": link.error_message if link else "",
        "version": link.protocol_version if link else "",
        "prefix": found.prefix,
        "unprobed": found.unprobed.partition(" ")[2],
        "restarts": link.restarts if link else 0,
        "has_reconnect_time": bool(link and link.reconnected_at),
        "stderr": link.stderr if link else "",
        "states": {tool.upstream_name: tool.state for tool in found.tools.all()},
    }
