"""The chat settings of keys that name tools follow when a connection's prefix renames these."""

from __future__ import annotations

from tools_catalog.models.renaming import FOLLOWERS, Renaming


def connect() -> None:
    FOLLOWERS.append(_follow_in_keys)


def _follow_in_keys(renaming: Renaming) -> None:
    from mcphub.features.chat.models import ChatKey

    for row in ChatKey.objects.all():
        names = [renaming.names.get(name, name) for name in row.tool_names]
        if names != row.tool_names:
            row.tool_names, row.change_reason = names, renaming.reason
            row.save()
