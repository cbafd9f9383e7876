"""The rules of the audit's tables hold in the database itself: raw SQL meets them too."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction

from invocations.models import McpErrorMapping, McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation
from sessions_app.history.reading import history_of
from tests.factories import McpRequestEnvelopeFactory, McpToolInvocationFactory

pytestmark = pytest.mark.django_db


def insert_like(row, **columns):
    """Insert a copy of a row by raw SQL, under an id of its own and with other values in `columns`."""
    values = {"invocation_id": "another", **columns}
    names = [field.column for field in row._meta.concrete_fields if not field.primary_key]
    marks = ", ".join("%s" if name in values else name for name in names)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {row._meta.db_table} ({', '.join(names)}) SELECT {marks} FROM {row._meta.db_table}",
            [values[name] for name in names if name in values],
        )


def change(row, **columns):
    """Update columns by raw SQL."""
    words = ", ".join(f"{column} = %s" for column in columns)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {row._meta.db_table} SET {words} WHERE id = %s", [*columns.values(), row.pk])


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "done"},
        {"status": "error", "error_code": "timeout"},
        {"error": "{}"},
        {"result": None},
        {"error_code": "timeout"},
        {"duration_ms": -1},
        {"occurrences": 0},
        {"transport": ""},
        {"invocation_id": None},
        {"tool_name": None},
        {"arguments": None},
        {"session_id": None},
        {"started_at": None},
        {"finished_at": None},
    ],
)
def test_successful_invocation_keeps_to_the_rules(columns):
    with pytest.raises(IntegrityError):
        insert_like(McpToolInvocationFactory(), **columns)


@pytest.mark.parametrize("columns", [{"error": None}, {"error_code": ""}, {"status": "ok"}])
def test_failed_invocation_keeps_to_the_rules(columns):
    with pytest.raises(IntegrityError):
        insert_like(McpToolInvocationFactory(failed=True), **columns)


def test_failed_invocation_may_hold_the_result_that_told_of_the_failure():
    insert_like(McpToolInvocationFactory(failed=True), result="{}")


@pytest.mark.parametrize("columns", [{"method": ""}, {"tool_name": ""}, {"params": None}, {"received_at": None}])
def test_envelope_keeps_to_the_rules(columns):
    with pytest.raises(IntegrityError):
        insert_like(McpRequestEnvelopeFactory(), **columns)


def test_envelope_of_another_method_names_no_tool():
    insert_like(McpRequestEnvelopeFactory(), method="tools/list", tool_name="")


@pytest.mark.parametrize("factory", [McpRequestEnvelopeFactory, McpToolInvocationFactory])
def test_one_invocation_id_has_one_row(factory):
    with pytest.raises(IntegrityError), transaction.atomic():
        factory(invocation_id=factory().invocation_id)


@pytest.mark.parametrize("factory", [McpRequestEnvelopeFactory, McpToolInvocationFactory])
def test_records_are_not_changed_by_raw_sql(factory):
    table = factory()._meta.db_table
    with pytest.raises(IntegrityError, match="never change"), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET tool_name = 'another'")


@pytest.mark.parametrize("factory", [McpRequestEnvelopeFactory, McpToolInvocationFactory])
def test_records_are_neither_changed_nor_deleted_through_the_models(factory):
    row = factory()
    model = type(row)
    for forbidden in (row.save, row.delete, lambda: model.objects.update(tool_name="x"), model.objects.all().delete):
        with pytest.raises(ValidationError):
            forbidden()
    assert model.objects.count() == 1


def test_request_ids_keep_their_type():
    for request_id in (1, "1", None, -5, "é\x00"):
        row = McpToolInvocationFactory(request_id=request_id)
        assert McpToolInvocation.objects.get(pk=row.pk).request_id == request_id


def test_records_say_what_they_are_of():
    assert "echo" in str(McpToolInvocationFactory())
    assert "tools/call echo" in str(McpRequestEnvelopeFactory())
    assert str(McpIdempotencyKey(scope="session:s", key="1")) == "session:s 1"
    assert str(McpErrorMapping(internal_code="timeout")) == "timeout"


def test_key_is_claimed_once_in_its_scope():
    McpIdempotencyKey.objects.create(scope="a", key="1", fingerprint="f", invocation_id="i")
    McpIdempotencyKey.objects.create(scope="b", key="1", fingerprint="f", invocation_id="j")
    with pytest.raises(IntegrityError), transaction.atomic():
        McpIdempotencyKey.objects.create(scope="a", key="1", fingerprint="g", invocation_id="k")


def a_mapping(**changes):
    McpErrorMapping.objects.filter(internal_code="timeout").delete()
    values = {
        "internal_code": "timeout",
        "json_rpc_code": -31012,
        "message_template": "{message}",
        "retryable": False,
        "data_schema": {"type": "object"},
    }
    return McpErrorMapping.objects.create(**{**values, **changes})


@pytest.mark.parametrize("code", [-32700, -32600, -32603, -32020, -32022, -31099, -31000])
def test_mapping_may_use_the_codes_of_json_rpc_of_mcp_and_our_own(code):
    change(a_mapping(), json_rpc_code=code)


@pytest.mark.parametrize(
    "columns",
    [
        *({"json_rpc_code": code} for code in (-32000, -32019, -32023, -32099, -32768, -31100, -30999, 0, 1, None)),
        {"message_template": ""},
        {"internal_code": "novel"},
        {"retryable": None},
        {"data_schema": None},
    ],
)
def test_mapping_keeps_to_the_rules(columns):
    with pytest.raises(IntegrityError):
        change(a_mapping(), **columns)


def test_internal_code_is_mapped_once():
    row = a_mapping()
    with pytest.raises(IntegrityError), transaction.atomic():
        McpErrorMapping.objects.create(
            internal_code=row.internal_code, json_rpc_code=-31013, message_template="x", data_schema={}
        )


def test_operator_is_told_field_by_field_what_is_wrong_with_a_mapping():
    row = a_mapping()
    row.json_rpc_code, row.message_template, row.data_schema = -32000, "{nothing}", {"type": "nonsense"}
    with pytest.raises(ValidationError) as caught:
        row.full_clean()
    assert set(caught.value.message_dict) >= {"message_template", "data_schema"}


def test_mapping_keeps_its_history():
    row = a_mapping()
    row.retryable = True
    row.save()
    assert [entry.after["retryable"] for entry in history_of(row)] == [True, False]


def test_envelopes_are_counted_by_the_model():
    McpRequestEnvelopeFactory()
    assert McpRequestEnvelope.objects.count() == 1
