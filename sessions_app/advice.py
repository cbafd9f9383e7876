"""Next steps that an error or a remark names, in the form of the door that shows it: the console or the command line.

REST, MCP and what a process records by itself get a neutral form, since its reader may have neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app.history import source


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One next step in its forms. Each may contain names in braces, which `words` fills in."""

    page: str
    """For a person in the console; never a command as the only way."""
    command: str
    """For a person at the command line; never a page of the console as the only way, but for what needs a browser."""
    neutral: str
    """For any other reader, and for what is stored."""

    def words(self, **names: str) -> str:
        """Return the form for the door of the current request or command."""
        form = {source.ADMIN: self.page, source.CLI: self.command}.get(source.current().door, self.neutral)
        return form.format(**names)
