"""Kept results: whose they are, how many, how long; and the page on which operators decide about sizes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from mcphub.features.fitting import handles, settings
from mcphub.features.fitting.models import KeptResult, ResultSize
from mcphub.features.fitting.trial import trial_of
from tests import factories as make
from tools_catalog.catalog.snapshot import Catalog

pytestmark = pytest.mark.django_db

PAST = datetime(2020, 1, 1, tzinfo=UTC)
WIRE = {"content": [{"type": "text", "text": "secret words"}]}


def keep(principal: str = "key:1", wire: dict[str, Any] | None = None) -> str:
    return handles.keep(
        wire or WIRE, principal=principal, tool_name="t", invocation_id="i", characters=5, is_hidden=False
    ).id


def test_a_result_is_its_callers_alone_and_encrypted() -> None:
    id_ = keep()
    found = handles.find(id_, "key:1")
    assert found is not None
    assert found.wire == WIRE
    assert handles.find(id_, "key:2") is None
    assert "secret" not in KeptResult.objects.get().content


def test_a_row_that_was_given_to_another_caller_opens_for_nobody() -> None:
    id_ = keep()
    KeptResult.objects.update(principal="key:2")
    assert handles.find(id_, "key:2") is None


def test_the_oldest_of_a_caller_make_room_and_those_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "MOST_OF_CALLER", 3)
    others = keep("key:2")
    kept = [keep() for _ in range(5)]
    assert set(KeptResult.objects.values_list("pk", flat=True)) == {others, *kept[-3:]}


def test_bytes_are_bounded_and_the_newest_stays_whatever_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"content": [{"type": "text", "text": Random(1).randbytes(2500).hex()}]}  # does not compress
    monkeypatch.setattr(handles, "MOST_BYTES_OF_CALLER", 8000)
    first, second = keep(wire=large), keep(wire=large)
    assert handles.find(first, "key:1") is None
    assert handles.find(second, "key:1") is not None


def test_what_has_expired_is_not_there_and_is_removed() -> None:
    old, new = keep(), keep()
    KeptResult.objects.filter(pk=old).update(expires_at=PAST)
    assert handles.find(old, "key:1") is None
    handles.purge()
    assert list(KeptResult.objects.values_list("pk", flat=True)) == [new]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"fields": "values["}, "fields"),
        ({"fields": "length(@)"}, "fields"),
        ({"fields_argument": "text"}, "fields_argument"),
        ({"fields_argument": "my fields"}, "fields_argument"),
        ({"most_characters": 10}, "most_characters"),
        ({}, "__all__"),
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any], field: str) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tool = make.McpToolDefinitionFactory(name="echo", input_schema=schema)
    with pytest.raises(ValidationError) as refused:
        ResultSize(tool=tool, **values).full_clean()
    assert set(refused.value.message_dict) == {field}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "most_characters"),
        ({"most_characters": 1000, "fields": "[].id"}, "fields"),
        ({"most_characters": 1000, "tables_as_csv": True}, "tables_as_csv"),
        ({"most_characters": 1000, "fields_argument": "result_fields"}, "fields_argument"),
    ],
)
def test_a_toolset_has_a_bound_and_nothing_else(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ResultSize(toolset=make.McpToolsetFactory(), **values).full_clean()
    assert set(refused.value.message_dict) == {field}


def test_a_size_is_of_one_tool_toolset_or_key() -> None:
    toolset, key = make.McpToolsetFactory(), make.ApiKeyFactory()
    for subjects in ({}, {"toolset": toolset, "key": key}):
        with pytest.raises(ValidationError) as refused:
            ResultSize(most_characters=1000, **subjects).full_clean()
        assert "Choose one tool, one toolset or one API key." in refused.value.message_dict["__all__"]
    ResultSize(most_characters=1000, key=key).full_clean()


def test_bounds_of_toolsets_and_keys_have_a_page(admin_client: Client) -> None:
    toolset, key = make.McpToolsetFactory(slug="narrow"), make.ApiKeyFactory(name="small model")
    address = reverse("admin:fitting_resultsize_add")
    for subject in ({"toolset": toolset.pk}, {"key": key.pk}):
        assert admin_client.post(address, {**subject, "most_characters": 4000}).status_code == 302
    page = admin_client.get(reverse("admin:fitting_resultsize_changelist")).content.decode()
    assert "narrow" in page
    assert "small model" in page
    row = ResultSize.objects.get(toolset=toolset)
    address = reverse("admin:fitting_resultsize_change", args=[row.pk])
    assert "Newest recorded result" not in admin_client.get(address).content.decode()
    assert admin_client.post(address, {"most_characters": 5000}).status_code == 302
    row.refresh_from_db()
    assert row.most_characters == 5000


def test_the_page_compares_the_newest_recorded_result_before_and_after(admin_client: Client) -> None:
    tool = make.McpToolDefinitionFactory(name="echo")
    row = ResultSize.objects.create(tool=tool, fields="[].id")
    address = reverse("admin:fitting_resultsize_change", args=[row.pk])
    assert "No recorded call of this tool" in admin_client.get(address).content.decode()
    text = '[{"id":1,"body":"' + "x" * 1000 + '"}]'
    make.McpToolInvocationFactory(tool_name="echo", result={"content": [{"type": "text", "text": text}]})
    page = admin_client.get(address).content.decode()
    assert "characters (about" in page
    assert "xxxx" not in page


def test_the_page_has_the_effect_of_tables(admin_client: Client) -> None:
    row = ResultSize.objects.create(tool=make.McpToolDefinitionFactory(name="echo"), tables_as_csv=True)
    text = json.dumps([{"identifier": at, "description": "x"} for at in range(50)])
    make.McpToolInvocationFactory(tool_name="echo", result={"content": [{"type": "text", "text": text}]})
    trial = trial_of(row)
    assert trial is not None
    assert trial.percent < 30
    page = admin_client.get(reverse("admin:fitting_resultsize_change", args=[row.pk])).content.decode()
    assert f"{trial.after} characters" in page


def test_the_catalogue_reads_the_smallest_bound_of_a_tool_and_its_enabled_toolsets() -> None:
    tools = {name: make.McpToolDefinitionFactory(name=name) for name in ("echo", "list_all", "other")}
    function = {"function": "mcphub.features.fitting.tools:read_result"}
    tools["reader"] = make.McpToolDefinitionFactory(name="reader", backend="python", configuration=function)
    ResultSize.objects.create(tool=tools["echo"], fields="[].id", most_characters=2000)
    assert not settings.follow_toolsets()
    ResultSize.objects.create(toolset=make.McpToolsetFactory(slug="wide", patterns="echo list_*"), most_characters=3000)
    ResultSize.objects.create(
        toolset=make.McpToolsetFactory(slug="slim", patterns="list_* reader"), most_characters=700
    )
    off = make.McpToolsetFactory(slug="off", patterns="*", enabled=False)
    ResultSize.objects.create(toolset=off, most_characters=500)
    assert settings.follow_toolsets()
    assert settings.read() == {
        tools["echo"].pk: settings.Size("[].id", most_characters=2000),
        tools["list_all"].pk: settings.Size(most_characters=700),
        tools["reader"].pk: settings.Size(most_characters=700, reads_parts=True),
    }
    key = make.ApiKeyFactory()
    ResultSize.objects.create(key=key, most_characters=900)
    assert settings.read_keys(Catalog()) == {key.pk: 900}
