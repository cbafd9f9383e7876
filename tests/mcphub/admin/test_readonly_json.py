"""Whoever may not change a row reads its JSON as JSON."""

from __future__ import annotations

from html import unescape

import pytest
from django.urls import reverse


@pytest.mark.parametrize("role", ["Viewer", "Auditor"])
def test_a_schema_is_json_and_not_python(log_in, echo, role):
    echo.meta = {"beta": None, "is": True}
    echo.save()
    page = log_in(role).get(reverse("admin:tools_catalog_mcptooldefinition_change", args=[echo.pk]))
    text = unescape(page.content.decode())
    assert '<pre class="hub-json" tabindex="0" role="region" aria-label="input schema">{\n  "type": "object",' in text
    assert '"beta": null,\n  "is": true' in text
    assert "{'type'" not in text
    assert "JSON Schema of the arguments; its root type is object." in text
