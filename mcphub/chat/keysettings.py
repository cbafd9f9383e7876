"""What an operator set for the chat requests of one key, as requests see it."""

from __future__ import annotations

from dataclasses import dataclass

from mcphub.chat.selection import named
from mcphub.chat.servers import Server


@dataclass(frozen=True, slots=True)
class KeySettings:
    model: str | None = None
    """Id of the model that answers where a request names none."""
    tools: str = "none"
    """A `ChatKey.Tools`."""
    names: tuple[str, ...] = ()

    def wanted(self) -> list[Server]:
        """Give the tools of a request that says nothing of them."""
        if self.tools == "none":
            return []
        return [named(None if self.tools == "all" else self.names)]


NOTHING = KeySettings()


def load() -> dict[int, KeySettings]:
    """Give the settings by the id of the key."""
    from mcphub.chat.models import ChatKey

    rows = ChatKey.objects.select_related("model__provider")
    return {
        row.key_id: KeySettings(row.model.public_id if row.model else None, row.tools, tuple(row.tool_names))
        for row in rows
    }
