"""The console says in words that retention erased a body."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import McpRequestEnvelopeFactory, McpToolInvocationFactory, UserFactory
from tests.invocations.chain.rows import retain

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture(autouse=True)
def _folder(settings, tmp_path):
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"


def test_erased_bodies_are_told_in_words():
    envelope = McpRequestEnvelopeFactory(invocation_id="old")
    row = McpToolInvocationFactory(invocation_id="old")
    retain(bodies_days=30)
    client = Client()
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    page = client.get(reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk])).content.decode()
    assert page.count("Erased by retention.") == 2
    assert "arguments: erased by retention" in page
    assert "&quot;sha256:" not in page
    change = reverse("admin:invocations_mcprequestenvelope_change", args=[envelope.pk])
    assert "Erased by retention." in client.get(change).content.decode()
