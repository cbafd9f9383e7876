"""The official SDKs that are tried as clients, and the eras they speak."""

from __future__ import annotations

from tests.wire.programs import Sdk

SDKS = [
    Sdk("2.3.0", "client_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "client_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "client_v2.py", "/mcp", "2026-07-28", "2026-07-28"),
    Sdk("2.3.0", "client_v2.py", "/sse", "sse", "2025-11-25"),
    Sdk("2.3.0", "client_v2.py", "stdio", "auto", "2026-07-28"),
    Sdk("2.3.0", "client_v2.py", "stdio", "legacy", "2025-11-25"),
    Sdk("1.30.0", "client_v1.py", "/mcp", "http", "2025-11-25"),
    Sdk("1.30.0", "client_v1.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.30.0", "client_v1.py", "stdio", "stdio", "2025-11-25"),
    Sdk("1.12.4", "client_v1.py", "/mcp", "http", "2025-06-18"),
    Sdk("1.12.4", "client_v1.py", "stdio", "stdio", "2025-06-18"),
    Sdk("1.9.4", "client_v1.py", "/mcp", "http", "2025-03-26"),
    Sdk("1.2.0", "client_v1.py", "/sse", "sse", "2024-11-05"),
    Sdk("1.2.0", "client_v1.py", "stdio", "stdio", "2024-11-05"),
    Sdk("fastmcp", "client_fast.py", "/mcp", "auto", "2026-07-28"),
    Sdk("fastmcp", "client_fast.py", "stdio", "auto", "2026-07-28"),
    Sdk("node", "sdk.mjs", "/mcp", "http", "2025-11-25"),
    Sdk("node", "sdk.mjs", "/sse", "sse", "2025-11-25"),
    Sdk("node", "sdk.mjs", "stdio", "stdio", "2025-11-25"),
    Sdk("node", "client.mjs", "/mcp", "legacy", "2025-11-25"),
    Sdk("node", "client.mjs", "/mcp", "auto", "2026-07-28"),
    Sdk("node", "client.mjs", "/mcp", "2026-07-28", "2026-07-28"),
    Sdk("node", "client.mjs", "/sse", "sse-legacy", "2025-11-25"),
    Sdk("node", "client.mjs", "stdio", "legacy", "2025-11-25"),
    Sdk("node", "client.mjs", "stdio", "auto", "2026-07-28"),
    Sdk("node", "sdk.mjs", "mcp-remote http-only", "stdio", "2025-11-25"),
    Sdk("node", "sdk.mjs", "mcp-remote sse-only", "stdio", "2025-11-25"),
]

ERAS = [("legacy", "2025-11-25"), ("modern", "2026-07-28")]
"""Of the inspector: what it calls them, and the revision."""
