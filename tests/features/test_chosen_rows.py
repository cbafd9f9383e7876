"""Values that are no keys, sent for chosen rows: an error of the field, and the form again."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db
NO_KEYS = ["x1", "9" * 30, "-", "1.5", "\0", "[]"]


@pytest.mark.parametrize("text", NO_KEYS)
@pytest.mark.parametrize(
    ("page", "field"),
    [
        ("invocations_mcpquota", "key"),
        ("invocations_mcpquota", "group"),
        ("tools_catalog_mcpconnection", "groups"),
        ("tools_catalog_mcptoolset", "tools"),
        ("auth_group", "permissions"),
        ("auth_user", "groups"),
    ],
)
def test_a_form_names_the_field(admin_client: Client, page: str, field: str, text: str) -> None:
    answer = admin_client.post(reverse(f"admin:{page}_add"), {field: text})
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert field in answer.context["adminform"].form.errors or field not in answer.context["adminform"].form.fields
