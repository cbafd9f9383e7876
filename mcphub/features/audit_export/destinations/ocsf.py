"""Records of the log as events of the Open Cybersecurity Schema Framework, OCSF 1.9.0.

Calls become *API Activity*, logins and tokens *Authentication*, other changes *Entity Management*; blocks, tombstones
and the begin become *Base Event*. `raw_data` is the record's own line, and every other member follows from it alone, so
an event that was changed does not fit its line. The events of a delivery are a chain by the profile
`record_integrity`: each has the fingerprint of the one before. Needs neither Django nor a database.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from invocations.chain.verifier import canonical, loads

VERSION: Final = "1.9.0"
_PRODUCT: Final = {"name": "MCP Hub", "vendor_name": "MCP Hub"}
_SHA_256, _JCS, _HEX = 3, 2, 1
_UNKNOWN, _SUCCESS, _FAILURE, _OTHER = 0, 1, 2, 99
_INFORMATIONAL, _LOW = 1, 2
_CAPTIONS: Final = {_UNKNOWN: "Unknown", _SUCCESS: "Success", _FAILURE: "Failure", _OTHER: "Other"}
_CLASSES: Final = {0: "Base Event", 3002: "Authentication", 3004: "Entity Management", 6003: "API Activity"}
_READS: Final = ("resources/read", "prompts/get", "completion/complete")
_LOGONS: Final = ("login.succeeded", "login.failed", "login.locked", "login.refused")
_TICKETS: Final = {"token.issued": 3, "token.refreshed": 5}
_FAILED: Final = frozenset({"login.failed", "login.locked", "login.refused", "token.replayed"})
_CHANGES: Final = {"created": 1, "changed": 3, "deleted": 4, "bodies.read": 2, "audit.exported": 2}
_ACTIVITIES: Final = {
    3002: {1: "Logon", 2: "Logoff", 3: "Authentication Ticket", 5: "Service Ticket Renew"},
    3004: {1: "Create", 2: "Read", 3: "Update", 4: "Delete"},
    6003: {2: "Read"},
}


class NotGenuine(ValueError):
    """An event does not follow from its line, or not upon the event before it; the message is the reason."""


def lines(records: Iterable[tuple[dict[str, Any], bytes]], chain: str) -> Iterator[bytes]:
    """Yield a line of JSON for each record, as one chain with this name."""
    before: dict[str, Any] | None = None
    for record, line in records:
        event = event_of(record, line)
        event["attestation_list"] = [_attested(event, chain, before)]
        before = event
        yield canonical(event) + b"\n"


def original(event: dict[str, Any], before: dict[str, Any] | None) -> tuple[dict[str, Any], bytes]:
    """Return the record of an event, and its line; raises NotGenuine. `before`: the event on the line before."""
    raw = event.get("raw_data")
    attestations = event.get("attestation_list")
    if not isinstance(raw, str) or not isinstance(attestations, list) or len(attestations) != 1:
        raise NotGenuine("it lacks raw_data or its attestation.")
    line = raw.encode("utf-8", "surrogatepass")
    try:
        record = loads(line)
        made = event_of(record, line)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        raise NotGenuine("its raw_data is no record of the log.") from None
    attestation = attestations[0]
    if canonical(made) != canonical({name: value for name, value in event.items() if name != "attestation_list"}):
        raise NotGenuine("it was changed: its members do not follow from its raw_data.")
    chain = attestation.get("chain_uid") if isinstance(attestation, dict) else None
    is_linked = isinstance(attestation, dict) and "prev_event" in attestation
    if canonical(attestation) != canonical(_attested(made, str(chain), before if is_linked else None)):
        raise NotGenuine("its attestation does not fit it and the event before: a line was changed, removed or moved.")
    return record, line + b"\n"


def event_of(record: dict[str, Any], line: bytes) -> dict[str, Any]:
    """Return the event of a record, without its attestation."""
    values = record.get("values") or {}
    kind = next(name for name in ("row", "block", "tombstone", "export", "test") if name in record)
    if kind == "row" and record["row"] == "event":
        found = _login(values) if _is_login(str(values.get("kind"))) else _change(values)
    elif kind == "row":
        found = _call(record["row"], values)
    else:
        found = {"class_uid": 0, "activity_id": _OTHER, "activity_name": f"audit {kind}"}
    class_uid, activity = found["class_uid"], found["activity_id"]
    found.setdefault("activity_name", _ACTIVITIES.get(class_uid, {}).get(activity, "Other"))
    is_bad = found.get("status_id") == _FAILURE or "problem" in record
    found |= {
        "class_name": _CLASSES[class_uid],
        "category_uid": class_uid // 1000,
        "type_uid": class_uid * 100 + activity,
        "severity_id": _LOW if is_bad else _INFORMATIONAL,
        "time": _time(record, kind, values),
        "metadata": _metadata(record, kind, values),
        "raw_data": line.rstrip(b"\n").decode("utf-8", "surrogatepass"),
    }
    if "status_id" in found:
        found.setdefault("status", _CAPTIONS[found["status_id"]])
    return found


def _call(table: str, values: dict[str, Any]) -> dict[str, Any]:
    method = _text(values.get("method")) or "unknown"
    api: dict[str, Any] = {"operation": method, "request": {"uid": _text(values.get("invocation_id")) or "unknown"}}
    if version := _text(values.get("protocol_version")):
        api["version"] = version
    if connection := _text(values.get("connection")):
        api["service"] = {"name": connection}
    found: dict[str, Any] = {
        "class_uid": 6003,
        "activity_id": 2 if method in _READS else _OTHER,
        "actor": _actor(values),
        "src_endpoint": _endpoint(values.get("client_address"), _text(values.get("client_name"))),
        "api": api,
    }
    if agent := _text(values.get("client_name")):
        version = _text(values.get("client_version"))
        found["ai_agent"] = {"name": agent, **({"version": version} if version else {})}
    if name := _text(values.get("tool_name")) or _text(values.get("target")):
        resource = {"name": name, "type": "tool" if values.get("tool_name") else "resource"}
        found["resources"] = [
            resource | ({"version": str(values["tool_version"])} if values.get("tool_version") else {})
        ]
    if found["activity_id"] == _OTHER:
        found["activity_name"] = "Intent" if table == "envelope" else "Call"
    if table == "envelope":
        return found | {"status_id": _OTHER, "status": "Pending"}
    _add_outcome(found, values)
    return found


def _add_outcome(found: dict[str, Any], values: dict[str, Any]) -> None:
    """Add the status, the error, the times and the trace of a call."""
    found["status_id"] = _SUCCESS if values.get("status") == "ok" else _FAILURE
    if code := _text(values.get("error_code")):
        found["status_code"] = code
        found["api"]["response"] = response = {"error": code}
        if isinstance(values.get("jsonrpc_code"), int):
            response["code"] = values["jsonrpc_code"]
    if isinstance(values.get("duration_ms"), int):
        found["duration"] = values["duration_ms"]
    for name, column in (("start_time", "started_at"), ("end_time", "finished_at")):
        if moment := _milliseconds(values.get(column)):
            found[name] = moment
    if trace := _text(values.get("trace_id")):
        found["trace"] = {"uid": trace}


def _is_login(kind: str) -> bool:
    return kind.startswith(("login.", "token."))


def _login(values: dict[str, Any]) -> dict[str, Any]:
    kind = str(values["kind"])
    activity = 1 if kind in _LOGONS else 2 if kind == "login.ended" else _TICKETS.get(kind, _OTHER)
    found: dict[str, Any] = {
        "class_uid": 3002,
        "activity_id": activity,
        "user": _user(values.get("actor"), _text(values.get("subject_label")) or values.get("actor_label")),
        "service": {"name": "MCP Hub"},
        "status_id": _FAILURE if kind in _FAILED else _SUCCESS,
        "message": kind,
    }
    if activity == _OTHER:
        found["activity_name"] = kind
    address = _inner(values.get("after")).get("address")
    if _is_address(address):
        found["src_endpoint"] = {"ip": address}
    return found


def _change(values: dict[str, Any]) -> dict[str, Any]:
    kind = str(values.get("kind"))
    activity = _CHANGES.get(kind, _OTHER)
    named = {
        "name": _text(values.get("subject_label")),
        "type": _text(values.get("subject_model")),
        "uid": _text(values.get("subject_id")),
    }
    entity = {name: value for name, value in named.items() if value}
    found: dict[str, Any] = {
        "class_uid": 3004,
        "activity_id": activity,
        "actor": {"user": _user(values.get("actor"), values.get("actor_label"))},
        "entity": entity if "name" in entity or "uid" in entity else {**entity, "name": kind},
        "status_id": _SUCCESS,
        "message": kind,
    }
    if activity == _OTHER:
        found["activity_name"] = kind
    if reason := _text(values.get("reason")):
        found["comment"] = reason
    return found


def _actor(values: dict[str, Any]) -> dict[str, Any]:
    actor: dict[str, Any] = {"user": _user(values.get("principal"), values.get("caller_label"))}
    if session := _text(values.get("session_id")):
        actor["session"] = {"uid": session}
    return actor


def _user(uid: object, name: object) -> dict[str, Any]:
    user = {"uid": _text(uid) or "unknown"}
    return {**user, "name": _text(name)} if _text(name) else user


def _endpoint(address: object, name: str) -> dict[str, Any]:
    if _is_address(address):
        return {"ip": address, **({"svc_name": name} if name else {})}
    return {"name": name or "unknown"}


def _is_address(value: object) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    return True


def _metadata(record: dict[str, Any], kind: str, values: dict[str, Any]) -> dict[str, Any]:
    applied = {"ai_operation": "client_name", "trace": "trace_id"} if kind == "row" else {}
    profiles = ["record_integrity", *(name for name, column in applied.items() if _text(values.get(column)))]
    found: dict[str, Any] = {
        "version": VERSION,
        "product": dict(_PRODUCT),
        "log_name": "audit",
        "profiles": profiles,
        "uid": _uid(record, kind),
    }
    if "position" in record:
        found["sequence"] = record["position"]
    return found


def _uid(record: dict[str, Any], kind: str) -> str:
    if kind == "row":
        return f"row-{record['position']}"
    if kind == "block":
        return f"block-{record['block']['number']}"
    return f"{kind}-{hashlib.sha256(canonical(record)).hexdigest()[:16]}"


def _attested(event: dict[str, Any], chain: str, before: dict[str, Any] | None) -> dict[str, Any]:
    attestation: dict[str, Any] = {"chain_uid": chain}
    if before is not None:
        attestation["prev_event"] = {
            "uid": before["metadata"]["uid"],
            "type_uid": before["type_uid"],
            "fingerprint": before["attestation_list"][0]["fingerprint"],
        }
    whole = {**event, "attestation_list": [attestation]}
    fingerprint = {
        "algorithm_id": _SHA_256,
        "serialization_id": _JCS,
        "encoding_id": _HEX,
        "value": hashlib.sha256(canonical(whole)).hexdigest(),
    }
    return {**attestation, "fingerprint": fingerprint}


def _time(record: dict[str, Any], kind: str, values: dict[str, Any]) -> int:
    told = record[kind] if isinstance(record[kind], dict) else values
    named = (told.get(name) for name in ("finished_at", "received_at", "happened_at", "sealed_at", "removed_at", "at"))
    return next(filter(None, map(_milliseconds, named)), 0)


def _milliseconds(value: object) -> int:
    try:
        return int(datetime.fromisoformat(str(value)).timestamp() * 1000) if value else 0
    except ValueError:
        return 0


def _inner(value: object) -> dict[str, Any]:
    try:
        found = loads(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else value
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)
