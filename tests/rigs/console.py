"""The console as a browser has it: a login, and the form of a tool as its page shows it."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from django.test.utils import setup_test_environment
from django.urls import reverse

_TOKEN = "c" * 32


def log_in() -> dict[str, str]:
    """Return the cookies of a superuser, who is made where there is none."""
    client = Client()
    people = get_user_model().objects
    client.force_login(people.filter(is_superuser=True).first() or people.create_superuser("rig"))
    name = settings.SESSION_COOKIE_NAME
    return {name: client.cookies[name].value, settings.CSRF_COOKIE_NAME: _TOKEN}


def tool_form(name: str) -> tuple[str, dict[str, Any]]:
    """Return the address of the page and the fields that a browser would send back."""
    from tools_catalog.models import McpToolDefinition  # the rig itself has no apps

    setup_test_environment()  # answers then tell the form that they show
    tool = McpToolDefinition.objects.get(name=name)
    page = reverse("admin:tools_catalog_mcptooldefinition_change", args=[tool.pk])
    client = Client(headers={"host": "127.0.0.1"})
    person = get_user_model().objects.filter(is_superuser=True).first()
    assert person is not None
    client.force_login(person)
    shown: dict[str, Any] = {"csrfmiddlewaretoken": _TOKEN}
    for bound in client.get(page).context["adminform"].form:
        value = bound.value()
        if isinstance(value, bool):
            value = "on" if value else None
        elif isinstance(value, (dict, list)) and not hasattr(bound.field, "choices"):
            value = json.dumps(value)
        if value not in (None, "", []):
            shown[bound.html_name] = value if isinstance(value, list) else str(value)
    return page, shown
