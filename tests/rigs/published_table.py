"""The servers that `tests.rigs.published` puts behind a hub: who publishes each, how it starts, what is asked.

Versions are in `published_servers/package.json` and `tests.clients.install`. Each starts without a network and with no
credential but a made-up one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients import install

Calls = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class Published:
    """A server: who publishes it, how it is started, and what is asked of it. FOLDER stands for the folder of a run."""

    name: str
    package: str
    """Of npm; of Python the module or the program, with the environment of `tests.clients.install` before a colon."""
    calls: Calls
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_alike: bool = True
    """Whether two calls give the same; not what reaches for the network, whose failures differ in a sandbox."""

    def command(self, folder: Path) -> list[str] | None:
        """Return how it is started; None where it is not installed."""
        environment, is_python, program = self.package.partition(":")
        found = _python(environment, program) if is_python else _npm(self.package)
        return None if found is None else [*found, *placed(list(self.words), folder)]


def _python(environment: str, program: str) -> list[str] | None:
    python = install.python(environment, install=False)
    if python is None:
        return None
    script = python.parent / program
    return [str(script)] if script.exists() else [str(python), "-m", program]


def _npm(package: str) -> list[str] | None:
    folder = install.node(install.PUBLISHED, install=False)
    if folder is None:
        return None
    where = folder / "node_modules" / package
    programs = json.loads((where / "package.json").read_text())["bin"]
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    return [str(folder / "node_modules/.bin/node"), str(where / program)]


def placed(value: Any, folder: Path) -> Any:
    """Put the folder of the run into words and arguments."""
    return json.loads(json.dumps(value).replace("FOLDER", str(folder)))


NOTE = "FOLDER/note.txt"
THOUGHT = {"thought": "Begin.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
SERVERS = (
    Published(
        "everything",
        "@modelcontextprotocol/server-everything",
        (
            ("echo", {"message": "Grüße"}),
            ("get-sum", {"a": 1.5, "b": 2}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-resource-links", {"count": 2}),
            ("get-structured-content", {"location": "Chicago"}),
            ("get-tiny-image", {}),
        ),
    ),
    Published(
        "filesystem",
        "@modelcontextprotocol/server-filesystem",
        (
            ("read_text_file", {"path": NOTE}),
            ("write_file", {"path": "FOLDER/new.txt", "content": "ü"}),
            ("edit_file", {"path": NOTE, "edits": [{"oldText": "hello", "newText": "bye"}]}),
            ("directory_tree", {"path": "FOLDER"}),
            ("read_text_file", {"path": "/nothing/there"}),
        ),
        ("FOLDER",),
    ),
    Published(
        "memory",
        "@modelcontextprotocol/server-memory",
        (
            ("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]}),
            ("search_nodes", {"query": "Ada"}),
            ("read_graph", {}),
        ),
        environment={"MEMORY_FILE_PATH": "FOLDER/memory.json"},
    ),
    Published(
        "thinking",
        "@modelcontextprotocol/server-sequential-thinking",
        (("sequentialthinking", THOUGHT), ("sequentialthinking", {**THOUGHT, "thoughtNumber": 2})),
    ),
    Published(
        "calc",
        "@coo-quack/calc-mcp",
        (
            ("hash", {"input": "a", "algorithm": "sha256"}),
            ("base64", {"input": "ü", "action": "encode"}),
            ("semver", {"action": "compare", "version": "1.2.3", "version2": "1.10.0"}),
            ("math", {"expression": "2^10"}),
            ("url_parse", {"url": "https://a.example/b?c=d"}),
        ),
    ),
    Published(
        "commands",
        "@agent-infra/mcp-server-commands",
        (("run_command", {"command": "echo one"}), ("run_command", {"command": "cat /nothing/there"})),
    ),
    Published(
        "bank",
        "@allpepper/memory-bank-mcp",
        (
            ("memory_bank_write", {"projectName": "p", "fileName": "a.md", "content": "# A"}),
            ("memory_bank_read", {"projectName": "p", "fileName": "a.md"}),
            ("list_projects", {}),
        ),
        environment={"MEMORY_BANK_ROOT": "FOLDER"},
    ),
    Published(
        "gitjs",
        "@cyanheads/git-mcp-server",
        (("git_status", {"path": "FOLDER/tree"}), ("git_branch", {"path": "FOLDER/tree", "mode": "list"})),
        environment={"MCP_TRANSPORT_TYPE": "stdio", "LOGS_DIR": "FOLDER/logs"},
    ),
    Published("hello", "mcp-hello-world", (("echo", {"message": "hi"}), ("add", {"a": 1, "b": 2}))),
    Published(
        "clock",
        "servers:mcp_server_time",
        (
            ("convert_time", {"source_timezone": "UTC", "time": "10:00", "target_timezone": "Asia/Tokyo"}),
            ("get_current_time", {"timezone": "Nowhere/Land"}),
        ),
        ("--local-timezone", "UTC"),
    ),
    Published(
        "git",
        "servers:mcp_server_git",
        (
            ("git_status", {"repo_path": "FOLDER/tree"}),
            ("git_branch", {"repo_path": "FOLDER/tree", "branch_type": "all"}),
        ),
        ("--repository", "FOLDER/tree"),
    ),
    Published("fetch", "servers:mcp_server_fetch", (("fetch", {"url": "http://127.0.0.1:9/none"}),)),
    Published(
        "sqlite",
        "published:mcp-server-sqlite",
        (
            ("create_table", {"query": "CREATE TABLE t (a INTEGER, b TEXT)"}),
            ("write_query", {"query": "INSERT INTO t VALUES (1, 'x')"}),
            ("read_query", {"query": "SELECT * FROM t"}),
            ("list_tables", {}),
            ("read_query", {"query": "SELECT * FROM nowhere"}),
        ),
        ("--db-path", "FOLDER/rows.db"),
    ),
    Published("calculator", "published:mcp_server_calculator", (("calculate", {"expression": "6*7"}),)),
    Published(
        "editor",
        "published:mcp-text-editor",
        (("get_text_file_contents", {"files": [{"file_path": NOTE, "ranges": [{"start": 1, "end": 1}]}]}),),
    ),
    Published(
        "excel",
        "excel:excel-mcp-server",
        (
            ("create_workbook", {"path": "FOLDER/a.xlsx"}),
            ("create_sheet", {"path": "FOLDER/a.xlsx", "new_name": "B"}),
            ("write_range", {"path": "FOLDER/a.xlsx", "sheet": "B", "at": "A1", "rows": [["x", 1.5], ["y", None]]}),
            ("read_range", {"path": "FOLDER/a.xlsx", "sheet": "B"}),
            ("describe_workbook", {"path": "FOLDER/none.xlsx"}),
        ),
        ("stdio",),
    ),
    Published(
        "chroma",
        "chroma:chroma-mcp",
        (("chroma_list_collections", {}), ("chroma_get_collection_count", {"collection_name": "none"})),
        ("--client-type", "ephemeral"),
    ),
    Published(
        "agentfs",
        "@agent-infra/mcp-server-filesystem",
        (("list_allowed_directories", {}),),
        ("--allowed-directories", "FOLDER"),
    ),
    Published(
        "pubmed",
        "@cyanheads/pubmed-mcp-server",
        (("pubmed_search_articles", {"query": "a"}),),
        environment={"MCP_TRANSPORT_TYPE": "stdio", "LOGS_DIR": "FOLDER/logs"},
        is_alike=False,
    ),
    Published("weather", "@dangahagan/weather-mcp", (("check_service_status", {}),), is_alike=False),
    Published("drawio", "@drawio/mcp", (("search_shapes", {"query": "server"}),), is_alike=False),
    Published("heroui", "@heroui/react-mcp", (("list_components", {}),), is_alike=False),
    Published("eslint", "@eslint/mcp", (("lint-files", {"filePaths": ["FOLDER/none.js"]}),), is_alike=False),
    Published(
        "planner",
        "@kazuph/mcp-taskmanager",
        (("list_requests", {}),),
        environment={"TASK_MANAGER_FILE_PATH": "FOLDER/tasks.json"},
    ),
    Published("icons", "@hugeicons/mcp-server", (("get_platform_usage", {"platform": "react"}),)),
    Published(
        "curl", "@mcp-get-community/server-curl", (("curl", {"url": "http://127.0.0.1:9/none"}),), is_alike=False
    ),
    Published(
        "brave",
        "@modelcontextprotocol/server-brave-search",
        (("brave_web_search", {"query": "a"}),),
        environment={"BRAVE_API_KEY": "none"},
        is_alike=False,
    ),
    Published(
        "github", "@modelcontextprotocol/server-github", (("search_repositories", {"query": "a"}),), is_alike=False
    ),
    Published(
        "gitlab",
        "@modelcontextprotocol/server-gitlab",
        (("search_repositories", {"search": "a"}),),
        environment={"GITLAB_PERSONAL_ACCESS_TOKEN": "none"},
        is_alike=False,
    ),
    Published("mobile", "@mobilenext/mobile-mcp", (("mobile_list_available_devices", {}),), is_alike=False),
    Published(
        "maps",
        "@modelcontextprotocol/server-google-maps",
        (("maps_geocode", {"address": "a"}),),
        environment={"GOOGLE_MAPS_API_KEY": "none"},
        is_alike=False,
    ),
    Published(
        "postgres",
        "@modelcontextprotocol/server-postgres",
        (("query", {"sql": "SELECT 1"}),),
        ("postgresql://nobody@127.0.0.1:9/none",),
        is_alike=False,
    ),
    Published(
        "slack",
        "@modelcontextprotocol/server-slack",
        (("slack_get_users", {}),),
        environment={"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "T1"},
        is_alike=False,
    ),
    Published("pdf", "@modelcontextprotocol/server-pdf", (("list_pdfs", {}),), ("--stdio",)),
    Published(
        "excelgo",
        "@negokaz/excel-mcp-server",
        (("excel_describe_sheets", {"fileAbsolutePath": "FOLDER/none.xlsx"}),),
        is_alike=False,
    ),
    Published(
        "notion",
        "@notionhq/notion-mcp-server",
        (("API-get-self", {}),),
        environment={"NOTION_TOKEN": "none"},
        is_alike=False,
    ),
    Published("mui", "@mui/mcp", (("fetchDocs", {"urls": ["https://mui.com/none"]}),), is_alike=False),
    Published("playwright", "@playwright/mcp", (("browser_close", {}),), is_alike=False),
    Published("airbnb", "@openbnb/mcp-server-airbnb", (("airbnb_search", {"location": "Paris"}),), is_alike=False),
    Published("aria", "@react-aria/mcp", (("list_react_aria_pages", {}),), is_alike=False),
    Published("primevue", "@primevue/mcp", (("version", {}),), is_alike=False),
    Published(
        "context7",
        "@upstash/context7-mcp",
        (("resolve-library-id", {"query": "a", "libraryName": "react"}),),
        is_alike=False,
    ),
    Published("vuetify", "@vuetify/mcp", (("get_installation_guide", {}),), is_alike=False),
    Published(
        "gitlab2",
        "@zereight/mcp-gitlab",
        (("get_merge_request_conflicts", {"project_id": "1", "merge_request_iid": "1"}),),
        environment={"GITLAB_PERSONAL_ACCESS_TOKEN": "none"},
        is_alike=False,
    ),
    Published("effect", "effect-mcp", (("effect_docs_search", {"query": "a"}),), is_alike=False),
    Published(
        "exa",
        "exa-mcp-server",
        (("web_search_exa", {"query": "a"}),),
        environment={"EXA_API_KEY": "none"},
        is_alike=False,
    ),
    Published("chrome", "chrome-devtools-mcp", (("list_pages", {}),), is_alike=False),
    Published(
        "firecrawl",
        "firecrawl-mcp",
        (("firecrawl_check_crawl_status", {"id": "1"}),),
        environment={"FIRECRAWL_API_KEY": "none"},
        is_alike=False,
    ),
    Published("deepwiki", "mcp-deepwiki", (("deepwiki_fetch", {"url": "a/b"}),), is_alike=False),
    Published("pages", "mcp-fetch-server", (("fetch_txt", {"url": "http://127.0.0.1:9/none"}),), is_alike=False),
    Published("notes", "mcp-obsidian", (("search_notes", {"query": "a"}),), ("FOLDER",)),
    Published("vault", "obsidian-mcp", (("obsidian_list_vaults", {}),), ("FOLDER/vault",)),
    Published(
        "runner",
        "mcp-server-code-runner",
        (("run-code", {"code": "print(1)", "languageId": "python"}),),
        is_alike=False,
    ),
    Published("shell", "mcp-server-commands", (("run_command", {"command": "echo one"}),), is_alike=False),
    Published("reddit", "reddit-mcp-buddy", (("browse_subreddit", {"subreddit": "a"}),), is_alike=False),
    Published("shadcn", "shadcn-ui-mcp-server", (("list_shadcn_components", {}),), is_alike=False),
    Published("tailwind", "tailwindcss-mcp-server", (("get_tailwind_colors", {}),)),
    Published(
        "tavily",
        "tavily-mcp",
        (("tavily_search", {"query": "a"}),),
        environment={"TAVILY_API_KEY": "none"},
        is_alike=False,
    ),
    Published("moment", "time-mcp", (("days_in_month", {"date": "2024-02-01"}),)),
)
