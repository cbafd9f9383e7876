"""A database that fails in the middle of a page or a request: it is told as what passes, and nothing is half saved."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils.html import escape

from tests.failing import failing
from tests.rest import by_key, error_of


@pytest.mark.parametrize("words", ["auth_user", "invocations_mcptoolinvocation"])
def test_people_are_told_that_it_passes(log_in, words):
    client = log_in("superuser")
    client.raise_request_exception = False
    page = reverse("admin:invocations_mcptoolinvocation_changelist") + "?client=a%22b&status__exact=error"
    with failing(words):
        answer = client.get(page, headers={"accept-language": "ru"})
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert "База данных не отвечает" in answer.content.decode()
    assert f'href="{escape(page)}"' in answer.content.decode()
    assert client.get(page).status_code == 200


def test_what_was_being_saved_is_not_there_by_halves(log_in, echo):
    client = log_in("superuser")
    client.raise_request_exception = False
    page = reverse("admin:tools_catalog_mcptooldefinition_changelist")
    with failing('INSERT INTO "sessions_app_auditevent"'):
        answer = client.post(page, {"action": "disable_selected", "_selected_action": [echo.pk], "confirmed": "yes"})
    assert answer.status_code == 503
    echo.refresh_from_db()
    assert (echo.enabled, echo.versions.count()) == (True, 1)


@pytest.mark.django_db
@pytest.mark.parametrize("words", ["sessions_app_apikey", "invocations_mcptoolinvocation"])
def test_programs_are_told_when_to_try_again(words):
    auditor = by_key("audit:read")
    with failing(words):
        answer = auditor.get("/api/invocations/")
    assert error_of(answer, 503, "audit_unavailable")["retryable"] is True
    assert answer["Retry-After"] == "1"
