"""Configurations as the documentation of each client writes them, with secrets that nobody has."""

from __future__ import annotations

TOKEN = "ghp_Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4"

CLAUDE_DESKTOP = """{
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/shared"]},
    "github": {"command": "uvx", "args": ["github-server"], "env": {"GITHUB_TOKEN": "@@", "LOG_LEVEL": "debug"}}
  }
}""".replace("@@", TOKEN)

CLAUDE_CODE = """{
  "mcpServers": {
    "issues": {"type": "http", "url": "${ISSUES_URL:-https://issues.example/mcp}",
               "headers": {"Authorization": "Bearer ${ISSUES_TOKEN}"}}
  }
}"""

CLAUDE_CODE_USER = """{
  "numStartups": 12,
  "mcpServers": {"shared": {"type": "stdio", "command": "shared-server", "args": [], "env": {}}},
  "projects": {
    "/home/a": {"mcpServers": {"own": {"type": "sse", "url": "https://own.example/sse"}}, "history": []},
    "/home/b": {"mcpServers": {"own": {"type": "sse", "url": "https://own.example/sse"}}}
  }
}"""

CURSOR = """{
  "mcpServers": {
    "local": {"type": "stdio", "command": "python", "args": ["${workspaceFolder}/server.py"],
              "env": {"API_KEY": "${env:LOCAL_API_KEY}"}},
    "far": {"url": "https://far.example/mcp", "headers": {"X-Api-Key": "abc-123"}}
  }
}"""

VS_CODE = """{
  // asked once, and kept by the client
  "inputs": [
    {"type": "promptString", "id": "perplexity-key", "description": "Perplexity API key", "password": true,},
    {"type": "pickString", "id": "mode", "description": "Mode", "options": ["read", "write"], "default": "read"},
  ],
  "servers": {
    "perplexity": {
      "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity", "--mode", "${input:mode}"],
      "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}"}, /* never written down */
    },
    "fetch": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"], "envFile": "${workspaceFolder}/.env"},
  },
}"""

VS_CODE_SETTINGS = '{"editor.fontSize": 12, "mcp": {"servers": {"time": {"command": "uvx", "args": ["t"]}}}}'

ZED = """{
  "theme": "One Dark",
  "context_servers": {
    "new": {"source": "custom", "command": "new-server", "args": ["--stdio"], "env": null},
    "old": {"source": "custom", "command": {"path": "old-server", "args": ["a"], "env": {"A": "b"}}, "settings": {}},
    "far": {"url": "https://far.example/mcp", "headers": {"Authorization": "Bearer <token>"}},
    "off": {"enabled": false, "command": "off-server", "args": []}
  }
}"""

CODEX = """
model = "o"

[mcp_servers.docs]
command = "docs-server"
args = ["--stdio"]
env_vars = ["DOCS_TOKEN"]
cwd = "/srv/docs"
startup_timeout_sec = 20

[mcp_servers.docs.env]
LEVEL = "info"

[mcp_servers.far]
url = "https://far.example/mcp"
bearer_token_env_var = "FAR_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Team-Key" = "TEAM_KEY" }
"""

WINDSURF = '{"mcpServers": {"far": {"serverUrl": "https://far.example/mcp", "headers": {"API_KEY": "${env:FAR_KEY}"}}}}'

CLINE = """{"mcpServers": {"w": {"command": "node", "args": ["/srv/w/build/index.js"], "disabled": true,
"alwaysAllow": ["get"], "timeout": 60}}}"""

ROO = '{"mcpServers": {"far": {"type": "streamable-http", "url": "https://far.example/mcp", "disabled": false}}}'

GEMINI = """{"mcpServers": {
  "new": {"httpUrl": "https://new.example/sse"}, "old": {"url": "https://old.example/sse"},
  "local": {"command": "local-server", "env": {"TOKEN": "$LOCAL_TOKEN"}}}}"""

OPENCODE = """{"mcp": {
  "local": {"type": "local", "command": ["npx", "-y", "thing"], "environment": {"K": "v"}, "enabled": true},
  "far": {"type": "remote", "url": "https://far.example/mcp", "headers": {"Authorization": "Bearer {env:FAR}"}}}}"""

OPENCODE_FILES = """{ "$schema": "https://opencode.ai/config.json",
  // notes
  "mcp": {
    "issues": {"type": "remote", "url": "https://mcp.example.com/mcp", "oauth": false, "enabled": true,
      "headers": {"Authorization": "Bearer {file:~/.secrets/example-token}", "X-Team": "{env:TEAM}"}},
    "local": {"type": "local", "command": ["bun", "x", "my-mcp-command"], "environment": {"KEY": "{env:MY_KEY}"},
      "cwd": "./tools"},
  },
}"""

VS_CODE_FOLDER = """{"servers": {"py": {"type": "stdio", "command": "${workspaceFolder}/.venv/bin/python",
  "args": ["-m", "srv", "--root", "${workspaceFolder}"]}}}"""

GOOSE = """
GOOSE_PROVIDER: openai
extensions:
  developer:
    type: builtin
    enabled: true
  issues:
    type: stdio
    cmd: uvx
    args: [issue-server, --cache, ~/cache]
    envs: {LEVEL: info}
    env_keys: [ISSUES_TOKEN]
    timeout: 300
    enabled: true
  far:
    type: streamable_http
    uri: https://far.example/mcp
    headers: {Authorization: Bearer $FAR_TOKEN}
"""

CONTINUE = """
name: mine
mcpServers:
  - name: files
    command: npx
    args: ["-y", "file-server", "./notes"]
    env: {FILES_TOKEN: "${{ secrets.FILES_TOKEN }}"}
"""

BRIDGED = """{"mcpServers": {"far": {"command": "npx",
  "args": ["-y", "mcp-remote@latest", "https://far.example/mcp", "--header", "Authorization:${AUTH}"],
  "env": {"AUTH": "Bearer @@"}}}}""".replace("@@", TOKEN)

WINDOWS = '{"mcpServers": {"w": {"command": "cmd", "args": ["/c", "npx", "-y", "thing"]}}}'

ALL = {name: text for name, text in globals().items() if name.isupper() and isinstance(text, str) and name != "TOKEN"}

SERVER_JSON = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": "io.github.example/weather",
    "title": "Weather",
    "description": "Tells the weather.",
    "version": "1.2.0",
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@example/weather",
            "version": "1.2.0",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"]},
                {"type": "positional", "valueHint": "city", "description": "Which city", "isRequired": True},
            ],
            "environmentVariables": [
                {"name": "WEATHER_KEY", "description": "A key", "isRequired": True, "isSecret": True},
                {"name": "WEATHER_LOG", "value": "level={level}", "variables": {"level": {"default": "info"}}},
            ],
        }
    ],
}

REMOTE_JSON = {
    "name": "com.example/weather",
    "description": "Tells the weather.",
    "version": "2.0.0",
    "remotes": [
        {"type": "sse", "url": "https://weather.example/sse"},
        {
            "type": "streamable-http",
            "url": "https://{tenant}.weather.example/mcp",
            "variables": {"tenant": {"description": "Which tenant", "isRequired": True}},
            "headers": [
                {"name": "X-Weather-Key", "description": "A key", "isRequired": True, "isSecret": True},
                {"name": "X-Region", "value": "eu"},
            ],
        },
    ],
}

OLD_SERVER_JSON = {
    "name": "io.github.example/old",
    "description": "Written as in July 2025.",
    "version_detail": {"version": "0.5.0"},
    "packages": [
        {
            "registry_type": "pypi",
            "identifier": "old-server",
            "version": "0.5.0",
            "environment_variables": [{"name": "OLD_KEY", "is_required": True, "is_secret": True}],
        }
    ],
}
