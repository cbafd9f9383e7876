"""The requests of the OpenAPI document's examples, as programs would send them. A test sends each to the hub."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol.json import Json

DIGEST = "9a82f0c4d1b37e65"
REASON = "asked for in ticket 4711"
SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Mapping[str, Json] = {
    "name": "weather",
    "title": "Weather",
    "description": "Tells the weather of a city.",
    "input_schema": SCHEMA,
    "backend": "http",
    "configuration": {"method": "GET", "url": "https://weather.example/now", "query": {"city": "{city}"}},
    "read_only": True,
    "destructive": False,
}
CONNECTION: Mapping[str, Json] = {
    "slug": "tickets",
    "title": "Tickets",
    "transport": "streamable-http",
    "url": "https://mcp.example/mcp",
}
PROFILE: Mapping[str, Json] = {"name": "git", "command": "git-mcp", "arguments": ["--stdio"], "network": "none"}
SECRET: Mapping[str, Json] = {"name": "git", "origins": "https://git.example", "users": "service:git"}
SERVICE: Mapping[str, Json] = {"slug": "git", "title": "Git", "url": "https://git.example/rest"}
TOOLSET: Mapping[str, Json] = {"slug": "few", "title": "A few tools", "mode": "search", "patterns": "weather.*"}
WORKSPACE: Mapping[str, Json] = {"slug": "payments", "title": "Payments"}
ALLOWED_HOST: Mapping[str, Json] = {"host": "10.0.3.7:8443", "enabled": True, "note": "The ticket system."}
ACCESS_REVIEW: Mapping[str, Json] = {
    "name": "Quarterly review Q3",
    "tools": "pay.*",
    "due_at": "2099-10-15T12:00:00Z",
    "reviewers": ["ada"],
}
WRITE_STOP: Mapping[str, Json] = {"workspace": None, "reason": "A leaked key is looked into."}
PRICE: Mapping[str, Json] = {
    "name": "gpt-5-2026",
    "provider": "openai",
    "model": "gpt-5",
    "input_millionths": 1_250_000,
    "cached_millionths": 125_000,
    "output_millionths": 10_000_000,
}
RESOURCE: Mapping[str, Json] = {
    "uri": "handbook://start",
    "name": "start",
    "mime_type": "text/markdown",
    "backend": "text",
    "content": "# First day",
}
PROMPT: Mapping[str, Json] = {
    "name": "welcome",
    "description": "Greets a colleague.",
    "arguments": [{"name": "who", "required": True}],
    "backend": "messages",
    "messages": [{"role": "user", "content": {"type": "text", "text": "Greet {who}."}}],
}
PROVIDER: Mapping[str, Json] = {"slug": "local", "kind": "compatible", "base_url": "https://models.example/v1"}
MODEL: Mapping[str, Json] = {"provider": "openai", "name": "gpt-5", "aliases": ["default"], "is_default": True}
GROUP: Mapping[str, Json] = {"name": "auditors", "permissions": ["invocations.view_mcptoolinvocation"]}
REDACTION: Mapping[str, Json] = {"kind": "path", "place": "$.credentials.password", "part": "arguments"}
VIEW: Mapping[str, Json] = {
    "page": "invocations.mcptoolinvocation",
    "name": "Failed calls",
    "query": "status__exact=error&columns=time,tool,status",
}
KEY: Mapping[str, Json] = {"name": "auditor", "scopes": ["audit:read"]}
MAPPING: Mapping[str, Json] = {"json_rpc_code": -32603, "message_template": "{tool} was too slow.", "retryable": True}
_SWITCHED: Json = {"enabled": False, "reason": REASON}
_DECIDED: Json = {"digest": DIGEST, "reason": REASON}
REQUESTS: Mapping[str, Json] = {
    "ConnectionRequest": CONNECTION,
    "PatchedConnectionRequest": _SWITCHED,
    "ErrorMappingRequest": MAPPING,
    "PatchedErrorMappingRequest": {"message_template": "{tool} was too slow.", "reason": REASON},
    "ReplayRequestRequest": {"dry_run": True},
    "KeyRequest": KEY,
    "RevocationRequest": {"reason": REASON},
    "AccountableRequest": {"people": ["ada"], "reason": REASON},
    "RotationRequest": {"overlap_hours": 24, "reason": REASON},
    "LaunchProfileRequest": PROFILE,
    "PatchedLaunchProfileRequest": {"arguments": ["--stdio", "--quiet"], "reason": REASON},
    "DecisionRequest": _DECIDED,
    "ModelPriceRequest": PRICE,
    "PatchedModelPriceRequest": {"output_millionths": 9_000_000, "reason": REASON},
    "PatchedPersonRequest": {"is_active": False, "reason": REASON},
    "EndingRequest": {"reason": REASON},
    "PeopleGroupRequest": GROUP,
    "PatchedPeopleGroupRequest": {"name": "readers", "reason": REASON},
    "PromptRequest": PROMPT,
    "PatchedPromptRequest": _SWITCHED,
    "ProviderRequest": {**PROVIDER, "key": "a-long-secret"},
    "PatchedProviderRequest": _SWITCHED,
    "ProviderTestRequest": {"model": "llama"},
    "ModelRequest": MODEL,
    "PatchedModelRequest": _SWITCHED,
    "AccessReviewRequest": ACCESS_REVIEW,
    "GrantDecisionRequest": {"grants": [17, 18], "decision": "take_away", "reason": "left the team"},
    "ReviewClosingRequest": {"reason": REASON},
    "WriteStopRequest": WRITE_STOP,
    "AllowWritesRequest": {"reason": "The key was replaced."},
    "AllowedHostRequest": {**ALLOWED_HOST, "reason": REASON},
    "PatchedAllowedHostRequest": _SWITCHED,
    "RedactionRuleRequest": {**REDACTION, "reason": REASON},
    "PatchedRedactionRuleRequest": _SWITCHED,
    "SavedViewRequest": VIEW,
    "PatchedSavedViewRequest": {"name": "Failed calls of today"},
    "ResourceRequest": RESOURCE,
    "PatchedResourceRequest": _SWITCHED,
    "SecretRequest": {**SECRET, "value": "a-long-secret"},
    "PatchedSecretRequest": {"value": "another-long-secret", "reason": REASON},
    "ServiceRequest": SERVICE,
    "PatchedServiceRequest": _SWITCHED,
    "ToolDefinitionRequest": {**TOOL, "reason": REASON},
    "PatchedToolDefinitionRequest": _SWITCHED,
    "ToolsetRequest": TOOLSET,
    "WorkspaceRequest": WORKSPACE,
    "PatchedWorkspaceRequest": {"title": "Payments and invoices", "reason": REASON},
    "PatchedToolsetRequest": _SWITCHED,
    "ChatQueryRequest": {"content": "What is the weather in Oslo?"},
    "ChatSessionRequest": {"context": {"ticket": 4711}, "max_messages": 20},
}
