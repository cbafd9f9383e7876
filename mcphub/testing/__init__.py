"""Tests of tools: a client that calls them in process, as a user, against the test database.

The public surface is here; docs/integrate/testing.md has it.
"""

from mcphub.testing.client import Failed, Result
from mcphub.testing.client import ToolClient as Client

__all__ = ["Client", "Failed", "Result"]
