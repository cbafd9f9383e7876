"""Rights in a workspace: its roles, as permissions for its rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q

from sessions_app.workspaces.models import McpWorkspace

_SEEN = (
    "invocations.view_mcptoolinvocation",
    "tools_catalog.view_mcptooldefinition",
    "tools_catalog.view_mcptoolset",
    "tools_catalog.view_mcpprompt",
    "tools_catalog.view_mcpresource",
    "tools_catalog.view_mcpconnection",
    "tools_catalog.view_mcppolicyrule",
    "sessions_app.view_apikey",
)
_REVIEWING = (
    "access_review.view_accessreview",
    "access_review.view_reviewedgrant",
    "access_review.decide_accessreview",
)
RIGHTS: Mapping[str, frozenset[str]] = {
    "members": frozenset(),
    "auditors": frozenset(
        {
            *_SEEN,
            "invocations.read_bodies",
            "invocations.view_mcpapproval",
            *_REVIEWING,
            "access_review.add_accessreview",
        }
    ),
    "operators": frozenset(
        {
            *_SEEN,
            *_REVIEWING,
            "tools_catalog.add_mcptoolset",
            "tools_catalog.change_mcptoolset",
            "tools_catalog.delete_mcptoolset",
            "tools_catalog.add_mcppolicyrule",
            "tools_catalog.change_mcppolicyrule",
            "tools_catalog.delete_mcppolicyrule",
            "sessions_app.add_apikey",
            "sessions_app.change_apikey",
            "invocations.view_mcpapproval",
            "invocations.decide_mcpapproval",
        }
    ),
}
"""Role -> permissions. Rights that reach out of the hub, over connections and tools, stay with the hub's operators."""


def rights_in(user: User | AnonymousUser, workspace: int) -> frozenset[str]:
    """Return the rights of a person in a workspace. Asks the database."""
    if user.pk is None:
        return frozenset()
    found: frozenset[str] = frozenset()
    for role, rights in RIGHTS.items():
        if rights and McpWorkspace._default_manager.filter(pk=workspace, **{f"{role}__user": user.pk}).exists():
            found |= rights
    return found


def open_to(user: User | AnonymousUser) -> list[McpWorkspace]:
    """Return the workspaces with pages that a person may open, by name."""
    if user.pk is None:
        return []
    conditions = [Q(**{f"{role}__user": user.pk}) for role, rights in RIGHTS.items() if rights]
    return list(McpWorkspace._default_manager.filter(reduce(or_, conditions)).distinct())


def opens_console(user: Any) -> bool:
    """Return whether a person may open the console: the whole of it, or in a workspace. Asks the database for
    others.
    """
    return bool(user.is_staff or open_to(user))
