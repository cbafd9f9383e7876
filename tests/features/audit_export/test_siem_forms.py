"""The audit as OCSF events, and as lines of CEF and LEEF."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from invocations.chain.tables import ENVELOPE, INVOCATION, Audited
from invocations.chain.verifier import canonical, loads
from mcphub.features.audit_export.destinations import ocsf, siem_lines
from mcphub.features.audit_export.destinations.syslog import MOST_BYTES, message_of
from mcphub.features.audit_export.joining import CannotJoin, join
from tests.features.audit_export import ocsf_schema
from tests.features.audit_export.receivers import Syslog
from tests.features.audit_export.test_shipping import grow, verified

pytestmark = pytest.mark.program

AT = "2026-11-28T10:00:00.123456Z"
CALL = {
    "method": "tools/call",
    "tool_name": "echo",
    "tool_version": 3,
    "status": "error",
    "error_code": "timeout",
    "jsonrpc_code": -31001,
    "principal": "key:2",
    "caller_label": "Ann | a=b \\ c",
    "client_name": "a\nb\tc",
    "client_version": "1.2",
    "client_address": "10.1.2.3",
    "session_id": "s-1",
    "invocation_id": "i-1",
    "trace_id": "a" * 32,
    "received_at": AT,
    "finished_at": AT,
    "duration_ms": 12,
}
RECORDS: list[dict[str, Any]] = [
    {"export": 1, "origin": "mcphub-x", "first_block": 0, "first_position": 0, "keys": []},
    {"block": {"number": 0, "first": 0, "count": 6, "root": "ab", "sealed_at": AT}, "signature": "x", "rows": "here"},
    {"row": "envelope", "id": 1, "position": 0, "hash": "00", "values": {"method": "tools/call", "received_at": AT}},
    {"row": "invocation", "id": 1, "position": 1, "hash": "01", "values": CALL},
    {
        "row": "event",
        "id": 1,
        "position": 2,
        "hash": "02",
        "values": {
            "kind": "login.failed",
            "actor": "",
            "subject_label": "ann",
            "after": '{"address":"2001:db8::1"}',
            "happened_at": AT,
        },
    },
    {
        "row": "event",
        "id": 2,
        "position": 3,
        "hash": "03",
        "values": {"kind": "changed", "actor": "user:1", "subject_model": "a.B", "subject_id": "4", "happened_at": AT},
    },
    {"row": "event", "id": 3, "position": 4, "hash": "04", "values": {"kind": "hub.backed_up", "happened_at": AT}},
    {"row": "invocation", "id": 9, "position": 5, "hash": "05", "values": {}, "problem": "was deleted"},
]
KINDS = (
    *("login.succeeded", "login.failed", "login.locked", "login.refused", "login.ended"),
    *("token.issued", "token.refreshed", "token.revoked", "token.replayed"),
    *("created", "changed", "deleted", "bodies.read", "audit.exported", "audit.rows_removed", "hub.backed_up"),
)
METHODS = ("tools/call", "resources/read", "prompts/get", "completion/complete", "sampling/createMessage")


def events(records: list[dict[str, Any]] = RECORDS) -> list[dict[str, Any]]:
    pairs = [(record, canonical(record) + b"\n") for record in records]
    return [loads(line) for line in ocsf.lines(pairs, "audit-0")]


def check(event: dict[str, Any]) -> None:
    """Fail where an event is not as the hub makes them, or offends the schema."""
    assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert event["category_uid"] == event["class_uid"] // 1000
    assert event["metadata"]["version"] == "1.9.0"
    assert event["metadata"]["profiles"][0] == "record_integrity"
    assert ("trace" in event) == ("trace" in event["metadata"]["profiles"])
    assert ("ai_agent" in event) == ("ai_operation" in event["metadata"]["profiles"])
    (attestation,) = event["attestation_list"]
    assert attestation["chain_uid"]
    assert re.fullmatch("[0-9a-f]{64}", attestation["fingerprint"]["value"])
    assert ocsf_schema.problems(event) == []


def test_each_record_is_a_valid_event_of_its_class() -> None:
    made = events()
    for event in made:
        check(event)
    assert [each["class_uid"] for each in made] == [0, 0, 6003, 6003, 3002, 3004, 3004, 6003]


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_of_each_kind_is_valid(kind: str) -> None:
    bare = {"kind": kind, "happened_at": AT}
    whole = bare | {"actor": "user:1", "actor_label": "Ann", "subject_model": "a.B", "subject_id": "4"}
    whole |= {"subject_label": "b", "after": '{"address":"10.1.2.3"}', "reason": "as asked"}
    for event in events([{**RECORDS[4], "values": values} for values in (bare, whole)]):
        check(event)


@pytest.mark.parametrize("of", [ENVELOPE, INVOCATION])
@pytest.mark.parametrize("method", METHODS)
def test_a_call_of_each_method_is_valid_whatever_it_lacks(of: Audited, method: str) -> None:
    values = CALL | {"method": method, "target": "file:///a", "connection": "b", "protocol_version": "2026-07-28"}
    whole = {name: values[name] for name in values if name in of.columns}
    lacking = [{name: whole[name] for name in whole if name != left_out} for left_out in whole]
    for event in events([{**RECORDS[3], "row": of.name, "values": each} for each in (whole, *lacking)]):
        check(event)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("status_id", 77),
        ("actor", {"person": "Ann"}),
        ("api", {"operation": 3}),
        ("ai_agent", {"version": "1"}),
        ("attestation_list", [{"chain_uid": "a"}]),
        ("unheard_of", 1),
    ],
)
def test_what_the_schema_does_not_allow_is_a_problem(attribute: str, value: Any) -> None:
    event = events()[3]
    assert ocsf_schema.problems({name: event[name] for name in event if name != "actor"})
    assert ocsf_schema.problems({**event, attribute: value})


def test_a_failed_call_has_its_caller_tool_error_and_times() -> None:
    call = events()[3]
    assert call["actor"] == {"user": {"uid": "key:2", "name": CALL["caller_label"]}, "session": {"uid": "s-1"}}
    assert call["ai_agent"] == {"name": CALL["client_name"], "version": "1.2"}
    assert call["resources"] == [{"name": "echo", "type": "tool", "version": "3"}]
    assert (call["status_id"], call["status_code"], call["duration"]) == (2, "timeout", 12)
    assert call["api"]["response"] == {"error": "timeout", "code": -31001}
    assert call["end_time"] == call["time"] == 1795860000123


def test_a_failed_login_has_its_name_and_address() -> None:
    login = events()[4]
    assert (login["activity_name"], login["status"], login["user"]["name"]) == ("Logon", "Failure", "ann")
    assert login["src_endpoint"] == {"ip": "2001:db8::1"}


def test_the_events_give_back_the_lines_of_the_log() -> None:
    before = None
    for event, record in zip(events(), RECORDS, strict=True):
        assert ocsf.original(event, before) == (record, canonical(record) + b"\n")
        before = event


@pytest.mark.parametrize(
    "tamper",
    [
        lambda made: made[3].update(status_id=1, status="Success"),
        lambda made: made[3]["actor"]["user"].update(uid="key:9"),
        lambda made: made[3].update(raw_data=made[3]["raw_data"].replace("timeout", "quota__")),
        lambda made: made[3]["attestation_list"][0]["fingerprint"].update(value="0" * 64),
        lambda made: made[3]["attestation_list"][0].pop("prev_event"),
        lambda made: made.pop(3),
        lambda made: made.insert(2, made.pop(5)),
        lambda made: made.__setitem__(3, events([{**RECORDS[3], "values": {**CALL, "status": "ok"}}])[0]),
    ],
    ids=["status", "caller", "raw", "fingerprint", "link", "removed", "moved", "made anew"],
)
def test_a_changed_line_is_found_from_the_chain_alone(tmp_path: Path, tamper: Any) -> None:
    made = events()
    tamper(made)
    file = tmp_path / "audit-0.jsonl"
    file.write_bytes(b"".join(canonical(each) + b"\n" for each in made))
    with pytest.raises(CannotJoin, match=r"line [0-9]+: "):
        join([file], io.BytesIO())


@pytest.mark.usefixtures("transactional_db")
def test_what_a_folder_keeps_as_ocsf_is_proved_with_the_public_key(
    database, keys, sealer, target, ship, settings
) -> None:
    row = target("folder", "siem", format="ocsf")
    for _ in range(2):
        grow(database, sealer, 1)
        ship(row).step()
    folder = Path(settings.MCPHUB_SHIPPING_DIR) / "siem"
    (file,) = folder.iterdir()
    made = [loads(line) for line in file.read_bytes().splitlines()]
    for event in made:
        check(event)
    assert {each["class_uid"] for each in made} >= {0, 3004, 6003}
    assert verified([folder], keys).summary.rows == 19


@pytest.mark.usefixtures("transactional_db")
@pytest.mark.parametrize(("form", "head"), [("cef", " CEF:0|MCP Hub|"), ("leef", " LEEF:2.0|MCP Hub|")])
def test_syslog_brings_the_lines_of_a_siem(database, sealer, target, ship, form: str, head: str) -> None:
    with Syslog() as syslog:
        row = target("syslog", syslog.address, format=form)
        grow(database, sealer, 1)
        ship(row).step()
        messages = syslog.messages()
    assert len(messages) == 12
    assert all(head in each for each in messages)


def test_a_value_cannot_break_out_of_its_place_in_cef() -> None:
    line = siem_lines.cef_of({**RECORDS[3], "values": {**CALL, "method": "a|b\nc"}}, "1.0").decode()
    assert line.startswith(r"CEF:0|MCP Hub|MCP Hub|1.0|a\|b c|a\|b c|6|rt=1795860000123 externalId=1 suid=key:2")
    assert r"suser=Ann | a\=b \\ c src=10.1.2.3" in line
    assert r"requestClientApplication=a\nb" in line
    assert "\n" not in line
    ipv6 = siem_lines.cef_of({**RECORDS[3], "values": {**CALL, "client_address": "2001:db8::1"}}, "1.0").decode()
    assert "c6a2=2001:db8::1 c6a2Label=Source IPv6 Address" in ipv6


def test_a_value_cannot_break_out_of_its_place_in_leef() -> None:
    head, attributes = siem_lines.leef_of(RECORDS[3], "1.0").decode().split("|x09|")
    assert head == "LEEF:2.0|MCP Hub|MCP Hub|1.0|tools/call"
    told = dict(each.split("=", 1) for each in attributes.split("\t"))
    assert (told["client"], told["accountName"], told["reason"]) == ("a b c", CALL["caller_label"], "timeout")
    assert (told["devTime"], told["position"], told["sev"]) == ("1795860000123", "1", "6")


def test_a_message_stays_within_the_size_that_receivers_accept() -> None:
    record = {**RECORDS[3], "values": {**CALL, **dict.fromkeys(("caller_label", "client_name", "target"), "é" * 5000)}}
    for form in (siem_lines.cef_of, siem_lines.leef_of):
        message = message_of(record, b"", lambda each, form=form: form(each, "1.0"))
        assert len(message) <= MOST_BYTES
        message.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "address", "form"),
    [
        ("syslog", "tls://siem.example:6514", "ocsf"),
        ("otlp", "https://siem.example/v1/logs", "ocsf"),
        ("webhook", "https://siem.example/hook", "cef"),
        ("folder", "siem", "leef"),
    ],
)
def test_a_form_is_refused_where_it_has_no_use(target, kind: str, address: str, form: str) -> None:
    from django.core.exceptions import ValidationError

    with pytest.raises(ValidationError) as refused:
        target(kind, address, format=form)
    assert set(refused.value.message_dict) == {"format"}
