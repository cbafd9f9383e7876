"""What follows from the declaration of a column, for every column: nobody lists them a second time."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.db import models
from django.utils import timezone

from invocations import columns
from invocations.chain import exporting, tables, verifier
from invocations.chain.records import RowSelection
from invocations.columns import ENVELOPE, INVOCATION, ColumnType, ValueOwner
from invocations.ledger import statements
from invocations.lists.filters import CALL_FILTERS
from invocations.mapping.error_map import ErrorMap
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.recovery import interrupted
from invocations.rest.serializers import InvocationSerializer
from sessions_app.kit.fields import JSONText
from tests.factories import McpRequestEnvelopeFactory, ServerProcessFactory
from tests.invocations.chain.rows import fill

TABLES = [(ENVELOPE, McpRequestEnvelope), (INVOCATION, McpToolInvocation)]
NOT_IN_REST: dict[str, str] = {}
"""Columns that REST and the exports leave out -> why."""
NO_FILTER = {
    "id": "lists follow it, and a cursor names it",
    "invocation_id": "it is the address of a call",
    "received_at": "calls are looked for by the time when they started",
    "finished_at": "calls are looked for by the time when they started",
    "error": "its code is what is looked for",
    "caller_label": "a label may change; the principal does not",
    "tool_call_id": "models make them up; the turn is what is looked for",
    "turn_round": "the turn is what is looked for",
    "policy_version": "the rule is what is looked for",
    "policy_said": "the rule and the error's code are what is looked for",
    "span_id": "the trace is what is looked for",
}
_TYPES = {
    ColumnType.TEXT: (models.CharField, JSONText, models.ForeignKey),
    ColumnType.SMALL_INTEGER: (models.PositiveSmallIntegerField,),
    ColumnType.INTEGER: (models.IntegerField,),
    ColumnType.BIG_INTEGER: (models.BigAutoField,),
    ColumnType.BOOLEAN: (models.BooleanField,),
    ColumnType.TIME: (models.DateTimeField,),
}


@pytest.mark.parametrize(("table", "model"), TABLES)
def test_a_declared_column_is_a_field_of_the_model_and_the_other_way_round(table, model):
    fields = {field.column: field for field in model._meta.concrete_fields}
    assert {column.name for column in table.columns} == set(fields)
    assert table.table == model._meta.db_table
    for column in table.columns:
        assert isinstance(fields[column.name], _TYPES[column.type]), column.name
        assert fields[column.name].null == column.is_optional, column.name


@pytest.mark.parametrize(("table", "model"), TABLES)
def test_every_column_that_is_not_the_databases_own_is_in_the_statements(table, model):
    statement = {"envelope": statements.ENVELOPE, "invocation": statements.INVOCATION}[table.name]
    due = [column.name for column in table.columns if column.of is not ValueOwner.DATABASE]
    assert sorted(statement.columns) == sorted(due)
    for name in due:
        assert name in statement.sqlite[1]
        assert name in statement.postgresql


@pytest.mark.parametrize(("table", "model"), TABLES)
def test_every_column_is_sealed_and_bodies_by_their_digest(table, model):
    sealed = next(of for of in tables.AUDITED if of.name == table.name)
    assert list(sealed.columns) == sorted(column.name for column in table.columns)
    assert verifier.BODIES[table.name] == table.bodies


def test_every_column_is_a_member_in_rest_and_in_the_consoles_export():
    due = {column.member or column.name for column in INVOCATION.columns if column.name not in NOT_IN_REST}
    assert due == set(InvocationSerializer.Meta.fields) - {"bodies_hidden"}
    assert due <= set(InvocationSerializer(context={"hidden": False, "fields": due}).fields)


@pytest.mark.usefixtures("transactional_db")
def test_every_column_is_in_the_export_as_csv(database, log):
    fill(database, 1)
    out = io.BytesIO()
    exporting.write_csv(out, log, RowSelection())
    assert out.getvalue().startswith(exporting.BYTE_ORDER_MARK)  # spreadsheets take other letters for these otherwise
    head, _ = csv.reader(io.StringIO(out.getvalue().decode("utf-8-sig")))
    assert sorted(head) == sorted(column.name for column in INVOCATION.columns)


def test_every_column_has_a_filter_or_a_reason_why_it_has_none():
    filtered = {column.name for column, _ in INVOCATION.filters}
    assert filtered | set(NO_FILTER) == {column.name for column in INVOCATION.columns}
    assert not filtered & set(NO_FILTER)
    parameters = [each.parameter for _, each in INVOCATION.filters]
    assert len(parameters) == len(set(parameters))
    assert set(parameters) == {each.name for each in CALL_FILTERS if each.over_rest}


CONTEXT = [column for column in INVOCATION.of(ValueOwner.SOURCE, ValueOwner.TOOL) if column.name not in columns.IN_BOTH]


@pytest.mark.django_db
def test_recovery_gives_a_row_every_column_that_its_source_and_its_tool_have():
    """Of what the envelope has no column for, its context holds a value by the column's own name."""
    values = {column.name: 3 if column.type is ColumnType.SMALL_INTEGER else f"{column.name}!" for column in CONTEXT}
    values |= {"transport": "stdio", "protocol_version": "2025-06-18", "method": "prompts/get"}
    dead = ServerProcessFactory(last_seen_at=timezone.now() - timedelta(hours=1))
    envelope = McpRequestEnvelopeFactory(process=dead, context=values)
    assert interrupted.recover("host", "own", ErrorMap()) == 1
    row = McpToolInvocation.objects.get()
    assert {name: getattr(row, name) for name in values} == values
    for name in columns.IN_BOTH:
        assert getattr(row, name) == getattr(envelope, name), name


def test_a_context_holds_what_is_there_and_leaves_nulls_out():
    in_context = columns.in_context(ValueOwner.TOOL)
    assert in_context(("echo", "1", "0" * 64, None, None, None, None)) == {}
    assert in_context(("", "", "0" * 64, "prompts/get", "greet", None, "up")) == {
        "method": "prompts/get",
        "target": "greet",
        "connection": "up",
    }


def test_what_a_call_without_a_tool_records_of_a_tool_is_blank():
    blank = INVOCATION.blank(ValueOwner.TOOL)
    assert blank == {
        "name": "",
        "version": "",
        "digest": "",
        "method": None,
        "target": None,
        "asked_by": None,
        "connection": None,
    }
    assert set(blank) == {column.attribute or column.name for column in INVOCATION.of(ValueOwner.TOOL)}
