"""Each kind of target against a real receiver: what arrives, what counts as arrived, what a receiver may not do."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from django.core.exceptions import ValidationError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from invocations.chain.verifier import loads
from mcphub.features.audit_export.delivering import try_target
from mcphub.features.audit_export.destinations.webhook import signature
from mcphub.features.audit_export.models import ShippingState
from tests.features.audit_export.receivers import RFC5424, HttpReceiver, Syslog, certificate
from tests.features.audit_export.test_shipping import grow, state_of, verified
from tests.invocations.chain.rows import fill
from tests.object_store import client, object_store

pytestmark = pytest.mark.usefixtures("transactional_db")


TRACE = "0af7651916cd43dd8448eb211c80319c"


# Webhook ---------------------------------------------------------------------------------------------------


def test_a_webhook_gets_signed_lines(database, keys, sealer, target, ship, tmp_path: Path) -> None:
    with HttpReceiver() as receiver:
        row = target("webhook", f"{receiver.url}/hook", "whsec_c2VjcmV0LXNlY3JldA==", with_bodies=True)
        grow(database, sealer, 2)
        ship(row).step()
        (got,) = receiver.got
    assert got.headers["content-type"] == "application/x-ndjson"
    expected = signature(
        "whsec_c2VjcmV0LXNlY3JldA==", got.headers["webhook-id"], got.headers["webhook-timestamp"], got.body
    )
    assert got.headers["webhook-signature"] == expected
    assert got.headers["webhook-id"] == f"webhook-0-{state_of(row).position}"
    (tmp_path / "got.jsonl").write_bytes(got.body)
    assert verified([tmp_path / "got.jsonl"], keys).summary.rows == 19


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's own libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    found = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(("status", "words"), [(500, "status 500: Broken"), (307, "redirects"), (401, "status 401")])
def test_a_webhook_that_refuses_or_leads_elsewhere_has_got_nothing(
    database, sealer, target, ship, status: int, words: str
) -> None:
    with HttpReceiver(status=status, answer=b"Broken\x1b", more={"location": "/elsewhere"}) as receiver:
        row = target("webhook", f"{receiver.url}/hook")
        grow(database, sealer, 1)
        ship(row).step()
        assert (receiver.tries, receiver.got) == (1, [])
    assert state_of(row).position == 0
    assert words in state_of(row).problem


def test_a_receiver_may_ask_for_time_but_not_for_ever(database, sealer, target, ship) -> None:
    with HttpReceiver(status=429, more={"retry-after": "90"}) as receiver:
        row = target("webhook", receiver.url)
        grow(database, sealer, 1)
        assert ship(row).step() == 90
        receiver.more["retry-after"] = "9999999"
        assert ship(row).step() == 300


def test_an_address_inside_is_refused_when_it_is_called(database, sealer, target, ship, settings) -> None:
    with HttpReceiver() as receiver:
        row = target("webhook", receiver.url)
        settings.MCPHUB_EGRESS_ALLOW = []
        grow(database, sealer, 1)
        ship(row).step()
        assert receiver.tries == 0
    assert "not on the public internet" in state_of(row).problem


def test_what_is_too_large_goes_in_smaller_deliveries_and_a_row_alone_without_its_bodies(
    database, log, keys, sealer, target, ship, said, tmp_path: Path
) -> None:
    with HttpReceiver(most_bytes=6000) as receiver:
        row = target("webhook", receiver.url, with_bodies=True)
        fill(database, 5)
        fill(database, 1, tool="echo" * 30)
        sealer.seal()
        shipping = ship(row)
        for _ in range(40):
            if state_of(row).position == log.head().position:
                break
            shipping._delivered_at = 0.0
            shipping.step()
        assert state_of(row).position == log.head().position == 13
        assert receiver.tries > len(receiver.got) > 1
        got = b"".join(each.body for each in receiver.got)
    (tmp_path / "got.jsonl").write_bytes(got)
    assert verified([tmp_path / "got.jsonl"], keys).summary.rows == 13
    assert not said


# Syslog ----------------------------------------------------------------------------------------------------


def test_a_syslog_gets_messages_of_rfc_5424(database, sealer, target, ship, tmp_path: Path) -> None:
    context, authority = certificate(tmp_path)
    with Syslog() as plain, Syslog(context) as secure:
        rows = [
            target("syslog", plain.address, name="plain", with_bodies=True),
            target("syslog", secure.address, name="secure", with_bodies=True, authority=authority),
        ]
        grow(database, sealer, 1)
        for row, receiver in zip(rows, (plain, secure), strict=True):
            ship(row).step()
            found = [RFC5424.fullmatch(each) for each in receiver.messages()]
            assert all(found)
            kinds = [each[5] for each in found if each]
            assert kinds[:2] == ["export", "block"]
            assert kinds[2:] == ["envelope"] * 4 + ["invocation"] * 4 + ["event"] * 3
            rows_of = [json.loads(each[7]) for each in found if each and each[6] != "-"]
            assert [each["position"] for each in rows_of] == list(range(11))
            assert {each[1] for each in found if each and '"status":"error"' in each[7]} == {"108"}
            assert all(each[7].isascii() for each in found if each)
            assert state_of(row).position == 11


def test_a_syslog_that_closes_in_the_middle_has_got_nothing(database, sealer, target, ship) -> None:
    with Syslog() as receiver:
        row = target("syslog", receiver.address)
        grow(database, sealer, 1)
        receiver.dies_after = 100
        ship(row).step()
        assert state_of(row).position == 0
        assert state_of(row).failures == 1
        receiver.dies_after = None
        ship(row).step()
        assert len(receiver.messages()) == 12
        assert state_of(row).position == 10


def test_a_syslog_whose_certificate_nobody_vouches_for_gets_nothing(
    database, sealer, target, ship, tmp_path: Path
) -> None:
    context, _ = certificate(tmp_path)
    with Syslog(context) as receiver:
        row = target("syslog", receiver.address)
        grow(database, sealer, 1)
        ship(row).step()
        assert receiver.heard.empty()
    assert "TLS" in state_of(row).problem


def test_a_message_of_syslog_is_never_longer_than_receivers_take(database, sealer, target, ship) -> None:
    from invocations.ledger import statements
    from tests.invocations.chain.rows import event, invocation, ledger

    own = ledger()
    try:
        long = json.dumps({"text": "é" * 30_000})
        with own.transaction():
            statements.insert(own, statements.INVOCATION, [invocation(database, "long", arguments=long, result=long)])
    finally:
        own.close()
    from sessions_app.history import events

    events.record("tool.changed", actor=events.Actor("user:1"), label="x", after={"text": "é" * 20_000})
    event()
    with Syslog() as receiver:
        row = target("syslog", receiver.address, with_bodies=True)
        sealer.seal()
        ship(row).step()
        messages = receiver.messages()
    assert max(map(len, messages)) <= 8192
    bodies = [json.loads(found[7]) for each in messages if (found := RFC5424.fullmatch(each))]
    (call,) = [each for each in bodies if each.get("row") == "invocation"]
    assert call["values"]["arguments"].startswith('"sha256:')
    cut = [each["left_out"] for each in bodies if "left_out" in each]
    assert cut == [["after"]]


# OTLP ------------------------------------------------------------------------------------------------------


def test_otlp_gets_log_records_with_their_trace(database, sealer, target, ship) -> None:
    from invocations.ledger import statements
    from tests.invocations.chain.rows import invocation, ledger

    own = ledger()
    try:
        with own.transaction():
            statements.insert(own, statements.INVOCATION, [invocation(database, "traced", trace_id=TRACE)])
    finally:
        own.close()
    with HttpReceiver() as receiver:
        row = target("otlp", f"{receiver.url}/v1/logs", "Bearer canary")
        grow(database, sealer, 1)
        ship(row).step()
        (got,) = receiver.got
    assert got.headers["authorization"] == "Bearer canary"
    assert got.headers["content-type"] == "application/x-protobuf"
    request = ExportLogsServiceRequest.FromString(gzip.decompress(got.body))
    (resource,) = request.resource_logs
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "mcphub"
    records = resource.scope_logs[0].log_records
    calls = [each for each in records if each.event_name == "mcphub.audit.invocation"]
    assert {each.severity_text for each in calls} == {"INFO", "WARN"}
    assert bytes.fromhex(TRACE) in {each.trace_id for each in calls}
    attributes = {each.key: each.value for each in calls[0].attributes}
    assert attributes["gen_ai.tool.name"].string_value == "echo"
    assert "mcphub.audit.position" in attributes
    assert loads(calls[0].body.string_value)["row"] == "invocation"
    assert all(each.time_unix_nano for each in calls)


def test_what_an_otlp_receiver_rejects_is_counted_and_said(database, sealer, target, ship, said) -> None:
    answer = ExportLogsServiceResponse(partial_success=ExportLogsPartialSuccess(rejected_log_records=2))
    with HttpReceiver(answer=answer.SerializeToString()) as receiver:
        row = target("otlp", f"{receiver.url}/v1/logs")
        grow(database, sealer, 1)
        ship(row).step()
        assert (state_of(row).refused_rows, state_of(row).position) == (2, 10)
        assert "rejected 2 records" in said[0][1]
        receiver.answer = b"<html>not otlp</html>"
        grow(database, sealer, 1)
        ship(row).step()
    assert state_of(row).position == 10
    assert "none of OTLP" in state_of(row).problem


# Objects and Parquet ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store():
    with object_store() as url:
        yield url


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_object_store_gets_objects_that_sort_as_the_log(
    store: str, database, keys, sealer, target, ship, tmp_path: Path, format: str
) -> None:
    s3, bucket = client(store), f"audit-{format}"
    row = target("s3", f"{store}/{bucket}/hub-one", "secret", access_id="id", format=format, with_bodies=True)
    grow(database, sealer, 1)
    ship(row).step()
    assert "NoSuchBucket" in state_of(row).problem
    s3.create_bucket(Bucket=bucket)
    ship(row).step()
    grow(database, sealer, 1)
    ship(row).step()
    keys_of = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert len(keys_of) == 2
    assert keys_of[0].startswith("hub-one/2")
    assert "audit-0000000000000000-0000000000000009." in keys_of[0]
    bodies = [s3.get_object(Bucket=bucket, Key=each)["Body"].read() for each in keys_of]
    if format == "jsonl":
        for name, body in zip(("audit-1.jsonl.gz", "audit-2.jsonl.gz"), bodies, strict=True):
            (tmp_path / name).write_bytes(body)
        assert verified([tmp_path], keys).summary.rows == 19
    else:
        tables = [pyarrow.parquet.read_table(io.BytesIO(body)) for body in bodies]
        assert tables[0].schema.equals(tables[1].schema)
        rows = [each for table in tables for each in table.to_pylist()]
        calls = [each for each in rows if each["kind"] == "invocation"]
        assert len(calls) == 8
        assert calls[0]["tool_name"] == "echo"
        assert calls[0]["received_at"].tzinfo is not None
        assert sorted(each["position"] for each in rows if each["position"] is not None) == list(range(19))
        assert [loads(each["record"])["rows"] for each in rows if each["kind"] == "block"] == ["here", "here"]


def test_parquet_in_a_folder_is_whole_or_not_there(database, sealer, target, ship, settings) -> None:
    row = target("folder", "lake", format="parquet")
    grow(database, sealer, 1)
    ship(row).step()
    (file,) = (Path(settings.MCPHUB_SHIPPING_DIR) / "lake").iterdir()
    assert pyarrow.parquet.read_table(file).num_rows == 12
    assert state_of(row).position == 10


# The trial and the form ------------------------------------------------------------------------------------


def test_a_trial_arrives_and_is_no_part_of_what_is_kept(database, keys, sealer, target, ship, settings, store) -> None:
    with HttpReceiver() as receiver, Syslog() as syslog:
        rows = [
            target("webhook", receiver.url),
            target("otlp", receiver.url),
            target("syslog", syslog.address),
            target("folder", "siem", with_bodies=True),
        ]
        assert [try_target(row) for row in rows] == [""] * 4
        assert len(receiver.got) == 2
        assert '"test":' in syslog.messages()[0]
    assert "NoSuchBucket" in try_target(target("s3", f"{store}/none", "secret", access_id="id"))
    assert try_target(rows[0])
    assert set(ShippingState.objects.values_list("position", flat=True)) == {0}
    sealer.seal()
    ship(rows[3]).step()
    folder = Path(settings.MCPHUB_SHIPPING_DIR) / "siem"
    assert len(list(folder.iterdir())) == 2
    assert verified([folder], keys).summary.rows > 0


def test_a_folder_that_cannot_be_written_is_a_sentence(database, sealer, target, ship, settings) -> None:
    row = target("folder", "siem")
    Path(settings.MCPHUB_SHIPPING_DIR).write_text("a file stands where the folder is due")
    sealer.seal()
    ship(row).step()
    assert state_of(row).problem
    assert state_of(row).position == 0


@pytest.mark.parametrize(
    ("kind", "address", "more"),
    [
        ("folder", "../etc", {}),
        ("folder", "/etc", {}),
        ("webhook", "http://siem.example/hook", {}),
        ("webhook", "ftp://siem.example/hook", {}),
        ("webhook", "https://10.0.0.1/hook", {}),
        ("otlp", "https://user:secret@siem.example/v1/logs", {}),
        ("otlp", "https://siem.example/v1/logs", {"header": "Host"}),
        ("otlp", "https://siem.example/v1/logs", {"format": "parquet"}),
        ("syslog", "udp://siem.example:514", {}),
        ("syslog", "tls://siem.example", {}),
        ("syslog", "tls://siem.example:99999", {}),
        ("syslog", "tls://169.254.169.254:6514", {}),
        ("syslog", "tls://siem.example:6514", {"authority": "not a PEM certificate"}),
        ("s3", "https://s3.example", {"access_id": "id"}),
        ("s3", "https://s3.example/bucket", {}),
        ("pigeon", "north", {}),
    ],
)
def test_the_form_refuses_what_cannot_be_shipped_to(target, kind: str, address: str, more: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        target(kind, address, **more)
