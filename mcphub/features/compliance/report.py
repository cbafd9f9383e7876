"""The page of an evidence archive that people read and print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _

from mcphub.parts import EvidenceFile
from sessions_app.kit.features import declared
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

MOST_ROWS: Final = 200
"""Lines of a file that the page shows; the file has all."""
_MOST_CHARACTERS: Final = 300


def page(manifest: Mapping[str, Json], numbers: Counter[str], tables: Mapping[str, Any], language: str) -> str:
    """Return the page in a language, as one HTML file without scripts or links."""
    with translation.override(language):
        return render_to_string(
            "compliance/report.html",
            {
                "language": language,
                "manifest": manifest,
                "calls": numbers["calls"],
                "failed": numbers["failed"],
                "guarded": numbers["found by guardrails"],
                "sections": [_section(name, title, numbers, tables) for name, title in titles().items()],
            },
        )


def titles() -> dict[str, str]:
    return {
        "tools.jsonl": _("Tools and versions that ran"),
        "callers.jsonl": _("Callers and the tools that they called"),
        "refused.jsonl": _("Calls that were refused or masked"),
        "changes.jsonl": _("Changes of the configuration"),
        "second-person.jsonl": _("Changes that needed a second person"),
        "access.jsonl": _("People and keys"),
        **{part.name: str(part.title) for part in declared(EvidenceFile)},
        "verifications.jsonl": _("Verifications of the record"),
        "retention.jsonl": _("Retention and legal holds"),
        "removals.jsonl": _("Removals by retention"),
        "blocks.jsonl": _("Sealed blocks"),
    }


def _section(name: str, title: str, numbers: Counter[str], tables: Mapping[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Json]] = tables[name]
    words = {part.name: part.words for part in declared(EvidenceFile)}
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return {
        "name": name,
        "title": title,
        "words": words.get(name, ""),
        "count": numbers[name],
        "left": numbers[name] - len(rows),
        "columns": columns,
        "rows": [[_cell(row.get(column)) for column in columns] for row in rows],
    }


def _cell(value: Json) -> str:
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else json.canonical(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
