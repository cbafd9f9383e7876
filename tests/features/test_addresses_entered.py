"""Addresses that are none, entered in the forms that compare or check their parts: an error of the field."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from mcphub.features.audit_export.models import ShippingTarget
from mcphub.features.chat.models import ChatProvider
from mcphub.features.login.models import LoginProvider

pytestmark = pytest.mark.django_db
NO_ADDRESSES = ["http://[::1", "https://a.example:99999/", "https://[/bucket"]


@pytest.mark.parametrize("address", NO_ADDRESSES)
@pytest.mark.parametrize(
    ("page", "field", "more"),
    [
        ("chat_chatprovider", "base_url", {"slug": "x", "kind": "compatible"}),
        ("invocations_shippingtarget", "address", {"name": "x", "kind": "webhook"}),
        ("invocations_shippingtarget", "address", {"name": "x", "kind": "s3"}),
    ],
)
def test_a_form_names_the_field(
    admin_client: Client, page: str, field: str, more: dict[str, str], address: str
) -> None:
    answer = admin_client.post(reverse(f"admin:{page}_add"), {**more, field: address})
    assert answer.status_code == 200
    assert field in answer.context["adminform"].form.errors


@pytest.mark.parametrize("address", NO_ADDRESSES)
@pytest.mark.parametrize(
    ("row", "field"),
    [
        (ChatProvider(slug="x"), "base_url"),
        (ShippingTarget(name="x", kind=ShippingTarget.Kind.S3), "address"),
        (ShippingTarget(name="x", kind=ShippingTarget.Kind.SYSLOG), "address"),
        (LoginProvider(slug="x", kind=LoginProvider.Kind.OIDC), "issuer"),
    ],
    ids=lambda each: type(each).__name__ if hasattr(each, "pk") else each,
)
def test_a_row_is_not_valid(row: ChatProvider | ShippingTarget | LoginProvider, field: str, address: str) -> None:
    setattr(row, field, address)
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    assert field in refused.value.message_dict
