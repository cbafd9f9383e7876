"""Records of the log as one line each for receivers of syslog: ArcSight's CEF 0 and IBM's LEEF 2.0.

A line has the facts of a call or change, not its bodies; `position` and `hash` lead back to the record.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

_PRODUCT: Final = "MCP Hub"
_LONGEST: Final = 1000
"""Characters of a value."""
_CEF_NAMES: Final = {
    "at": "rt",
    "position": "externalId",
    "who": "suid",
    "who_label": "suser",
    "address": "src",
    "address6": "c6a2",
    "method": "act",
    "outcome": "outcome",
    "code": "reason",
    "client": "requestClientApplication",
    "words": "msg",
    "subject": "cs1",
    "session": "cs2",
    "invocation": "cs3",
    "hash": "cs4",
    "connection": "cs5",
    "workspace": "cs6",
    "duration_ms": "cn1",
}
_CEF_LABELS: Final = {
    "c6a2": "Source IPv6 Address",
    "cs1": "subject",
    "cs2": "session",
    "cs3": "invocation",
    "cs4": "hash",
    "cs5": "connection",
    "cs6": "workspace",
    "cn1": "duration_ms",
}
_LEEF_NAMES: Final = {
    "at": "devTime",
    "who": "usrName",
    "who_label": "accountName",
    "address": "src",
    "address6": "src",
    "code": "reason",
}


def cef_of(record: dict[str, Any], version: str) -> bytes:
    """Return a record as a line of CEF."""
    name, severity, facts = _facts(record)
    head = "|".join(_header(each) for each in (_PRODUCT, _PRODUCT, version, name, name, str(severity)))
    extension = []
    for fact, value in facts:
        key = _CEF_NAMES[fact]
        extension.append(f"{key}={_extension(value)}")
        if key in _CEF_LABELS:
            extension.append(f"{key}Label={_CEF_LABELS[key]}")
    return f"CEF:0|{head}|{' '.join(extension)}".encode("utf-8", "replace")


def leef_of(record: dict[str, Any], version: str) -> bytes:
    """Return a record as a line of LEEF, its attributes between tabs."""
    name, severity, facts = _facts(record)
    head = "|".join(_header(each) for each in (_PRODUCT, _PRODUCT, version, name))
    attributes = [f"sev={severity}", "cat=audit"]
    attributes += [f"{_LEEF_NAMES.get(fact, fact)}={_attribute(value)}" for fact, value in facts]
    return f"LEEF:2.0|{head}|x09|{'	'.join(attributes)}".encode("utf-8", "replace")


def _facts(record: dict[str, Any]) -> tuple[str, int, list[tuple[str, str]]]:
    """Return the name of a record, its severity from 0 to 10, and its facts."""
    values = record.get("values") or {}
    kind = next(each for each in ("row", "block", "tombstone", "export", "test") if each in record)
    is_bad = values.get("status") == "error" or "problem" in record
    if kind != "row":
        name = f"audit.{kind}"
    elif record["row"] == "event":
        name = str(values.get("kind") or "event")
    else:
        name = f"{values.get('method') or 'call'}{'.intent' if record['row'] == 'envelope' else ''}"
    return name, 6 if is_bad else 3, [(fact, text) for fact, text in _told(record, kind, values) if text]


def _told(record: dict[str, Any], kind: str, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    told = record[kind] if isinstance(record[kind], dict) else values
    named = (told.get(name) for name in ("finished_at", "received_at", "happened_at", "sealed_at", "removed_at", "at"))
    moment = next(filter(None, named), "")
    yield "at", str(int(datetime.fromisoformat(moment).timestamp() * 1000)) if moment else ""
    yield "position", str(record.get("position", told.get("number", "")))
    yield "who", _text(values.get("principal", values.get("actor")))
    yield "who_label", _text(values.get("caller_label", values.get("actor_label")))
    address = _text(values.get("client_address"))
    with contextlib.suppress(ValueError):  # a client over stdio has no address
        yield "address6" if ipaddress.ip_address(address).version == 6 else "address", address
    yield "method", _text(values.get("method", values.get("kind")))
    yield "outcome", _text(values.get("status"))
    yield "code", _text(values.get("error_code"))
    yield "client", _text(values.get("client_name"))
    yield "words", _text(values.get("reason", record.get("problem")))
    yield "subject", _text(values.get("tool_name") or values.get("target") or _subject(values))
    yield "session", _text(values.get("session_id"))
    yield "invocation", _text(values.get("invocation_id"))
    yield "hash", _text(record.get("hash") or told.get("root"))
    yield "connection", _text(values.get("connection"))
    yield "workspace", _text(values.get("workspace"))
    yield "duration_ms", _text(values.get("duration_ms"))


def _subject(values: dict[str, Any]) -> str:
    named = (_text(values.get(name)) for name in ("subject_model", "subject_id", "subject_label"))
    return " ".join(filter(None, named))


def _text(value: object) -> str:
    return "" if value is None else str(value)[:_LONGEST]


def _header(text: str) -> str:
    return " ".join(text.splitlines()).replace("\\", "\\\\").replace("|", "\\|")


def _extension(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("=", "\\=")
    return escaped.replace("\r", "\\r").replace("\n", "\\n")


def _attribute(text: str) -> str:
    """Return a value without tabs and ends of lines, which LEEF cannot escape."""
    return "".join(" " if letter in "\t\r\n" else letter for letter in text)
