"""Pages of rows that are made or were just made show nothing that such a row cannot have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

import mcphub.urls  # noqa: F401 - registers the pages of the admin
from sessions_app.history.reading import history_of
from tests.factories import McpToolDefinitionFactory
from tools_catalog.backends import python
from tools_catalog.models import McpToolDefinition, McpToolset

pytestmark = pytest.mark.django_db


def test_no_form_of_a_new_row_shows_times_or_a_version(log_in: Callable[..., Any]) -> None:
    client = log_in("superuser")
    seen = 0
    for model in admin.site._registry:
        page = client.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add"))
        form = (page.context or {}).get("adminform") if page.status_code == 200 else None
        if form is None:
            continue
        seen += 1
        shown = [field for _name, options in form.fieldsets for field in options["fields"]]
        assert "version" not in shown, model
        assert not [field for field in shown if getattr(field, "is_moment", False)], model
        assert all(options["fields"] for _name, options in form.fieldsets), model
    assert seen > 15


def test_a_function_whose_long_name_is_taken_gets_a_numbered_one_that_fits(log_in: Callable[..., Any]) -> None:
    long = "f" * (McpToolDefinition._meta.get_field("name").max_length or 0)

    def answers() -> str:
        """Answer."""
        return "42"

    python.tool(name=long)(answers)
    reference = next(each for each, known in python.registry.items() if known.function is answers)
    try:
        for taken in (long, long[:-2] + "_2"):
            McpToolDefinitionFactory(name=taken)
        form = log_in("superuser").get(
            reverse("admin:tools_catalog_mcptooldefinition_add"), {"kind": "python", "function": reference}
        )
    finally:
        del python.registry[reference]
    assert form.context["adminform"].form.initial["name"] == long[:-2] + "_3"


def test_the_entry_of_a_creation_shows_the_row_once(log_in: Callable[..., Any]) -> None:
    tool = McpToolDefinitionFactory(name="find_book")
    toolset = McpToolset.objects.create(slug="books", title="All books")
    toolset.tools.add(tool)
    made = history_of(toolset).earliest("pk")
    where = reverse("admin:tools_catalog_mcptoolset_history_entry", args=[toolset.pk, made.pk])
    page = log_in("superuser").get(where)
    assert made.kind == "mcptoolset.created"
    assert page.context["fields"] == []
    assert page.content.decode().count("All books") == 1
    toolset.title = "Books"
    toolset.save()
    edited = history_of(toolset).latest("pk")
    changed = log_in("superuser").get(
        reverse("admin:tools_catalog_mcptoolset_history_entry", args=[toolset.pk, edited.pk])
    )
    assert [field.field for field in changed.context["fields"]] == ["Title"]
