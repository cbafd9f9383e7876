"""The definitions of the three tools that search, describe and call the others of a toolset."""

from __future__ import annotations

from typing import Any

SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
DEFAULT_FOUND, MOST_FOUND = 10, 25
MOST_CHECKED = 50

DEFINITIONS: dict[str, dict[str, Any]] = {
    SEARCH: {
        "name": SEARCH,
        "title": "Search tools",
        "description": (
            "Find tools by what they do. There are more tools than are listed: search before you say that something "
            "cannot be done. Then describe_tool tells the arguments of one, and call_tool calls it."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 2000,
                    "description": (
                        "A few words for what is to be done, such as: merge pull request. Where several things are to "
                        "be done, a sentence for each."
                    ),
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_FOUND,
                    "default": DEFAULT_FOUND,
                    "description": "How many tools to give.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "title": {"type": "string"},
                            "description": {"type": "string"},
                            "readOnly": {"type": "boolean"},
                        },
                        "required": ["name", "description"],
                    },
                },
                "found": {"type": "integer", "description": "How many tools match in all."},
                "unmatched": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Words of the query that match no tool. Use other words for them.",
                },
            },
            "required": ["tools", "found"],
        },
    },
    DESCRIBE: {
        "name": DESCRIBE,
        "title": "Describe a tool",
        "description": (
            "Return all of one tool that search_tools found: what it does, and the schema of its arguments. With "
            "check, return which tools may be called now, and why not, without calling them."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 128, "description": "The tool's name, as found."},
                "check": {
                    "type": "array",
                    "items": {"type": "string", "maxLength": 128},
                    "maxItems": MOST_CHECKED,
                    "description": "Names of tools to check: may they be called now?",
                },
            },
            "additionalProperties": False,
        },
    },
    CALL: {
        "name": CALL,
        "title": "Call a tool",
        "description": "Call a tool that search_tools found, with arguments by the schema that describe_tool gives.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 128, "description": "The tool's name, as found."},
                "arguments": {"type": "object", "description": "Its arguments.", "default": {}},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    },
}
