"""What an upstream may ask, and how its questions go on."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.protocol import revisions
from sessions_app.protocol.errors import UpstreamError
from tools_catalog.call.input_requests import Relayed
from tools_catalog.upstream import bridge
from tools_catalog.upstream.asking import ELICITATION, ROOTS, SAMPLING, Asking
from tools_catalog.upstream.credential_fields import credential_field

ALL = Asking(connection="wiki", samples=True, lists_roots=True)


def form(name: str, message: str = "Tell me.", **field: Any) -> dict[str, Any]:
    return {"message": message, "requestedSchema": {"type": "object", "properties": {name: {"type": "string"} | field}}}


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "newPassword",
        "DB_PASS",
        "api_key",
        "apiKey",
        "API-KEY",
        "APIKey",
        "githubToken",
        "client_secret",
        "cardNumber",
        "card_no",
        "CVV",
        "pin",
        "пароль",
        "Ваш пароль",
        "номер_карты",
        "ключ API",
        "pаssword",  # with a Cyrillic letter
        "pass\u200bword",
        "ｐａｓｓｗｏｒｄ",
    ],
)
@pytest.mark.parametrize("place", ["name", "title"])
def test_a_field_that_names_a_credential_is_refused(name: str, place: str) -> None:
    asked = form(name) if place == "name" or name == "DB_PASS" else form("value", title=name)
    with pytest.raises(UpstreamError, match="credential"):
        ALL.checked(ELICITATION, asked)


@pytest.mark.parametrize(
    "asked",
    [
        form("value", format="password"),
        form("value", writeOnly=True),
        form("value", description="Your password on example.org"),
        form("value", "Введите пароль от почты."),
        {"message": "", "requestedSchema": {"properties": {"a": {"type": "object", "properties": {"secret": {}}}}}},
        form("pin", type="integer"),
    ],
)
def test_a_field_that_asks_for_a_credential_otherwise_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError, match="credential"):
        ALL.checked(ELICITATION, asked)


@pytest.mark.parametrize(
    "asked",
    [
        form("branch"),
        form("passport_country"),
        form("boarding_pass_number"),
        form("секретарь"),
        form("max_tokens", type="integer"),
        form("shopping", description="What to buy"),
        form("reset", "Shall I reset the password?", type="boolean"),
        form("token_kind", enum=["short", "long"]),
    ],
)
def test_a_field_that_asks_for_something_else_passes(asked: dict[str, Any]) -> None:
    passed = ALL.checked(ELICITATION, asked)
    assert passed == {**asked, "message": f'The connection "wiki" asks: {asked["message"]}'}


def test_an_operator_may_allow_forms_for_credentials() -> None:
    assert Asking(connection="wiki", asks_secrets=True).checked(ELICITATION, form("password"))


def test_a_form_without_an_end_is_refused() -> None:
    fields = {f"field{number}": {"type": "string"} for number in range(5000)}
    with pytest.raises(UpstreamError, match="too large"):
        ALL.checked(ELICITATION, {"message": "", "requestedSchema": {"type": "object", "properties": fields}})


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://example.org/",
        "http://127.0.0.1/",
        "https://user@example.org/",
        "https://good.example\\@bad.example/",
        "https://",
        "https://[",
        "//example.org/",
        "",
        None,
        5,
    ],
)
def test_a_person_is_led_to_plain_https_alone(url: Any) -> None:
    with pytest.raises(UpstreamError, match="address"):
        ALL.checked(ELICITATION, {"mode": "url", "message": "Go", "url": url})


def test_in_development_a_person_is_led_to_the_own_machine_too() -> None:
    there = Asking(opens_loopback=True)
    assert there.may_open("http://localhost:8080/consent")
    assert there.may_open("http://[::1]/")
    assert not there.may_open("http://localhost.example.org/")
    assert not there.may_open("javascript://localhost/%0aalert(1)")


@pytest.mark.parametrize("mode", ["URL", "", None, {}])
def test_a_mode_that_mcp_does_not_have_is_refused(mode: Any) -> None:
    with pytest.raises(UpstreamError, match="form that MCP does not have"):
        ALL.checked(ELICITATION, {**form("branch"), "mode": mode, "url": "javascript:alert(1)"})


def test_sampling_and_roots_are_off_until_an_operator_allows_them() -> None:
    plain = Asking(connection="wiki")
    for method in (SAMPLING, ROOTS):
        with pytest.raises(UpstreamError, match="its connection does not allow"):
            plain.checked(method, {"messages": []})
    assert bridge.permitted(bridge.EVERYTHING, plain) == {bridge.FORM, bridge.URL}
    told = bridge.declared(bridge.permitted(bridge.EVERYTHING, plain))
    assert told == {"elicitation": {"form": {}, "url": {}}, "extensions": bridge.declared(frozenset())["extensions"]}
    assert bridge.permitted(bridge.EVERYTHING, ALL) == bridge.EVERYTHING
    assert not bridge.permitted(bridge.EVERYTHING, Asking(elicits=False))


@pytest.mark.parametrize("context", ["allServers", "thisServer"])
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_sampling_brings_no_context_of_other_servers_and_names_its_connection(context: str, version: str) -> None:
    message = {"role": "user", "content": {"type": "text", "text": "Think."}}
    given = {"messages": [message], "maxTokens": 5, "includeContext": context, "_meta": {"mcphub/connection": "bank"}}
    sent = Relayed(SAMPLING, ALL.checked(SAMPLING, given)).params(revisions.revision(version))
    assert sent == {"messages": [message], "maxTokens": 5, "_meta": {"mcphub/connection": "wiki"}}


def test_a_request_for_roots_names_its_connection() -> None:
    sent = Relayed(ROOTS, ALL.checked(ROOTS, {"x": 1})).params(revisions.revision("2025-11-25"))
    assert sent == {"_meta": {"mcphub/connection": "wiki"}}


def test_a_field_of_no_type_counts_as_free_text() -> None:
    assert credential_field("", {"properties": {"password": {}}}) == "password"
