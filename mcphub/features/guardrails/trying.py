"""Tries detectors on a text or JSON that is pasted: in the console, over REST, on the command line. Keeps nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcphub.features.guardrails.guardrail import Guardrail
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json
from tools_catalog.detectors.scanning import GROUPS, Scan, Scanner, named, scanner_of

MAX_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class TriedScan:
    """The findings, and the duration of the search."""

    scan: Scan
    milliseconds: float

    @property
    def kinds(self) -> list[tuple[str, int]]:
        return sorted(self.scan.kinds.items(), key=lambda pair: (-pair[1], pair[0]))

    @property
    def masked(self) -> str:
        """The remaining value: a text as it is, anything else as JSON."""
        value = self.scan.value
        return value if isinstance(value, str) else json.dumps(value).decode("utf-8", "replace")

    def shown(self) -> dict[str, Json]:
        return {
            "found": dict(self.kinds),
            "places": list(self.scan.places),
            "masked": self.scan.value,
            "milliseconds": round(self.milliseconds, 3),
        }


def tried(
    value: Json, detectors: Sequence[str] = (), max_bytes: int | None = None, max_depth: int | None = None
) -> TriedScan:
    """Run the detectors, by default all. Raises ValueError for an unknown name, and for too much."""
    return _tried(scanner_of(named(detectors or tuple(GROUPS)), max_bytes, max_depth), value)


def tried_guardrails(value: Json, guardrails: Iterable[Guardrail]) -> list[tuple[Guardrail, TriedScan | None]]:
    """Return each guardrail's findings; None for one with a function or a service, which is not called here."""
    return [(each, None if each.scanner is None else _tried(each.scanner, value)) for each in guardrails]


def read(text: str) -> Json:
    """Return the pasted value: JSON if it is an object or a list, else the text itself."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text.strip().encode())
        except (ParseError, UnicodeEncodeError):
            return text
    return text


def _tried(scanner: Scanner, value: Json) -> TriedScan:
    text = json.canonical(value)
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"It is longer than {MAX_CHARACTERS} characters. Try a part of it.")
    began = time.perf_counter()
    scan = scanner.scan(value, text, masks=True)
    return TriedScan(scan, (time.perf_counter() - began) * 1000)
