"""How REST names the workspace that a row belongs to."""

from __future__ import annotations

from sessions_app.kit.rest.writing import Named
from sessions_app.workspaces.models import McpWorkspace


def workspace_field() -> Named:
    """Return the member `workspace` of a row that operators give to a workspace."""
    return Named(
        slug_field="slug",
        queryset=McpWorkspace._default_manager.all(),
        required=False,
        allow_null=True,
        help_text="The workspace that it belongs to, by its name. null: it is everybody's.",
    )
