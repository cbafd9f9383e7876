"""Where no view answers: a page that says what to do next for people, JSON for programs, in every case."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.rest import error_of

PAGE = {"accept": "text/html,application/xhtml+xml"}


def page_of(answer, status: int) -> str:
    assert (answer.status_code, answer["Content-Type"]) == (status, "text/html; charset=utf-8")
    text: str = answer.content.decode()
    assert 'href="/"' in text, "the start page leads each person to pages that are open to them"
    return text


@pytest.mark.parametrize("path", ["/nowhere", "/admin/nowhere/", "/mcpp/"])
def test_an_address_that_leads_nowhere(log_in, path):
    page = log_in("superuser").get(path, headers={**PAGE, "accept-language": "ru"})
    assert "Такой страницы нет" in page_of(page, 404)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/nowhere", "/", "/mcpp", "/admin/"])
def test_a_client_that_took_another_address_for_the_endpoint(path):
    answer = Client(enforce_csrf_checks=True).post(path, {"jsonrpc": "2.0"}, "application/json")
    assert "MCP is at /mcp" in error_of(answer, 404, "not_found")["message"]


@pytest.mark.django_db
def test_a_client_that_asks_for_json():
    assert error_of(Client().get("/v2/models", headers={"accept": "application/json"}), 404, "not_found")


def test_a_page_that_a_person_may_not_open(log_in):
    answer = log_in("Viewer").get("/admin/auth/user/", headers=PAGE)
    assert "Your account lacks the permission" in page_of(answer, 403)


def test_a_form_that_is_too_old(log_in):
    log_in("superuser")
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/admin/login/", {"username": "a", "password": "b"}, headers=PAGE)
    text = page_of(answer, 403)
    assert "Nothing was changed" in text
    assert 'href="/admin/login/"' in text


@pytest.mark.django_db
def test_a_host_that_is_not_the_hubs():
    answer = Client().get("/admin/", headers={**PAGE, "host": "evil.example"})
    assert "Bad request" in page_of(answer, 400)


@pytest.mark.parametrize("model", ["tools_catalog_mcptooldefinition", "invocations_mcptoolinvocation"])
def test_a_row_that_is_not_there_leads_back_to_the_list_and_its_filters(log_in, model):
    back = "enabled__exact=1" if "tool" in model.split("_")[0] else "status__exact=error"
    address = reverse(f"admin:{model}_change", args=["gone"])
    answer = log_in("Viewer").get(address, {"_changelist_filters": back}, follow=True, headers=PAGE)
    assert answer.redirect_chain == [(f"{reverse(f'admin:{model}_changelist')}?{back}", 302)]
    assert "gone doesn&#x27;t exist" in answer.content.decode()
