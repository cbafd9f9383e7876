"""Lines of examples: their bounds, and detectors' findings in them. Pure."""

from __future__ import annotations

from sessions_app.protocol import json
from tools_catalog.detectors.scanning import named, scanner_of

MOST = 10
LONGEST = 200
_DETECTORS = ("secrets", "personal", "hidden", "injection")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without blanks around them, each once."""
    return list(dict.fromkeys(line for each in text.splitlines() if (line := " ".join(each.split()))))


def findings(line: str) -> list[str]:
    """Return the kinds of secrets, personal data, hidden characters and instructions that detectors find in a line."""
    scan = scanner_of(named(_DETECTORS), None, None).scan(line, json.canonical(line))
    return sorted(scan.kinds)
