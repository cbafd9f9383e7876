"""Services behind HTTP tools: address, credentials, and the requirements that decide what is served."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from sessions_app.protocol.errors import ToolDisabled
from tests.factories import McpToolDefinitionFactory
from tools_catalog import requirements
from tools_catalog.backends.http.backend import Service
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import HttpService, McpToolDefinition


class Everybody:
    groups: frozenset[int] = frozenset()
    sees_everything = False


def service(**more: Any) -> HttpService:
    row = HttpService(**{"slug": "git", "url": "https://git.example/rest", "kind": "git", "version": "8.2", **more})
    row.full_clean()
    row.save()
    return row


def tool(**more: Any) -> McpToolDefinition:
    made: McpToolDefinition = McpToolDefinitionFactory(
        name="read", configuration={"service": "git", "url": "/a/{b}"}, **more
    )
    return made


@pytest.mark.parametrize(
    ("wanted", "is_served"),
    [
        ({}, True),
        ({"kind": "git"}, True),
        ({"kind": "git", "version": ">=8.0"}, True),
        ({"version": ">=8.2, <8.2.1"}, True),
        ({"version": "==8.2.0"}, True),
        ({"version": "<8.10"}, True),
        ({"version": ">8.2"}, False),
        ({"version": ">=8.10"}, False),
        ({"kind": "other"}, False),
    ],
)
def test_requirements_are_compared_with_the_service(wanted: dict[str, str], is_served: bool) -> None:
    requirements.check(wanted)
    there = Service(slug="git", url="https://git.example", headers={}, kind="git", version="8.2")
    assert (requirements.why_not(wanted, there) == "") is is_served
    assert bool(requirements.why_not(wanted, None)) is bool(wanted)


def test_an_unknown_version_meets_no_bound() -> None:
    assert "is not said" in requirements.why_not({"version": ">=1"}, Service(slug="git", url="https://h", headers={}))


@pytest.mark.parametrize("wanted", [[], {"type": "x"}, {"kind": 5}, {"version": "8"}, {"version": ">=8,"}])
def test_what_is_no_requirement_is_refused(wanted: Any) -> None:
    with pytest.raises(ValueError):
        requirements.check(wanted)


@pytest.mark.django_db
def test_a_tool_is_served_while_its_service_is_what_it_requires() -> None:
    row = service()
    tool(requirements={"kind": "git", "version": ">=8.0"})
    before = Catalog.load()
    assert before.find("read", Everybody()).enabled
    HttpService.objects.filter(pk=row.pk).update(version="7.21")
    after = Catalog.load(before)
    with pytest.raises(ToolDisabled, match=r"requires version >=8\.0, and git has 7\.21"):
        after.find("read", Everybody())
    assert b'"read"' not in after.tool_list.page(Everybody(), "2026-07-28")
    HttpService.objects.filter(pk=row.pk).update(enabled=False)
    with pytest.raises(ToolDisabled, match="service git is switched off"):
        Catalog.load(after).find("read", Everybody())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("url", {"url": "ftp://git.example"}),
        ("url", {"url": "https://git.example/{a}"}),
        ("url", {"url": "https://git.example/?a=1"}),
        ("url", {"url": "https://u:p@git.example/"}),
        ("url", {"url": "http://127.0.0.1/"}),
        ("url", {"url": "http://169.254.169.254/latest"}),
        ("headers", {"headers": {"Host": "x"}}),
        ("headers", {"headers": {"X": "{argument}"}}),
        ("headers", {"headers": []}),
        ("version", {"version": "8.x"}),
        ("kind", {"kind": "Git Server"}),
    ],
)
def test_a_service_that_cannot_be_called_is_refused(field: str, more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        service(**more)
    assert list(caught.value.message_dict) == [field]


@pytest.mark.django_db
def test_a_tool_of_an_unknown_service_and_an_absolute_url_is_refused() -> None:
    row = tool()
    with pytest.raises(ValidationError, match="there is no service 'git'"):
        row.full_clean()
    service()
    row.full_clean()
    row.configuration = {"service": "git", "url": "https://elsewhere.example/"}
    with pytest.raises(ValidationError, match="begins with /"):
        row.full_clean()
    row.configuration = {"service": "git", "url": "/a", "retries": 2}
    with pytest.raises(ValidationError, match="retry-safe"):
        row.full_clean()
