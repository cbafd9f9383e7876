"""The tables of this floor. Django looks for them here, and other modules import them from here."""

from tools_catalog.models.accounts import PendingAuthorization, UpstreamAccount, UpstreamRegistration
from tools_catalog.models.aliases import McpAlias
from tools_catalog.models.allowed_hosts import AllowedHost
from tools_catalog.models.content import McpPrompt, McpResource
from tools_catalog.models.definitions import McpToolDefinition, McpToolVersion
from tools_catalog.models.launch import LaunchProfile
from tools_catalog.models.links import McpConnectionLink
from tools_catalog.models.secrets import Secret
from tools_catalog.models.services import HttpService, ImportedOperation
from tools_catalog.models.shown import PersonalList, ShownOffers
from tools_catalog.models.toolsets import McpToolset
from tools_catalog.models.upstream import McpConnection
from tools_catalog.models.upstream_tools import McpUpstreamTool

__all__ = [
    "AllowedHost",
    "HttpService",
    "ImportedOperation",
    "LaunchProfile",
    "McpAlias",
    "McpConnection",
    "McpConnectionLink",
    "McpPrompt",
    "McpResource",
    "McpToolDefinition",
    "McpToolVersion",
    "McpToolset",
    "McpUpstreamTool",
    "PendingAuthorization",
    "PersonalList",
    "Secret",
    "ShownOffers",
    "UpstreamAccount",
    "UpstreamRegistration",
]
