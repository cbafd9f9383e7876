"""Keys, logins and the one shape of errors, over any REST address."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta

import pytest
from django.db import DatabaseError, InternalError, OperationalError, connection, transaction
from django.test import Client
from django.utils import timezone

from sessions_app.history.reading import history_of
from sessions_app.kit.database import is_away
from sessions_app.kit.rest.errors import CODES, render_exception
from sessions_app.models import ApiKey
from sessions_app.rest.access import KeyPrincipal
from tests.factories import ApiKeyFactory, UserFactory
from tests.rest import by_key, by_person, by_token, error_of

pytestmark = pytest.mark.django_db

PATH = "/api/invocations/"
MAPPING = "/api/error-mappings/timeout/"


def get(authorization, path=PATH):
    return Client(headers={"authorization": authorization}).get(path)


def test_a_request_without_credentials_is_told_how_to_send_them():
    response = Client().get(PATH)
    error = error_of(response, 401, "unauthorized")
    assert response["WWW-Authenticate"] == "Bearer"
    assert "Bearer" in error["message"]


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Basic dTpw", "mcph_00000000_x", "Bearer mcph_00000000_x", "Bearer \0", "Bearer é"],
)
def test_a_bad_credential_is_refused_and_not_taken_for_none(authorization):
    response = get(authorization)
    error_of(response, 401, "unauthorized")
    assert response["WWW-Authenticate"] == "Bearer"


def test_a_known_prefix_alone_opens_nothing():
    _, token = ApiKey.issue("k", scopes=["audit:read"])
    error_of(get(f"Bearer {token[:-1]}"), 401, "unauthorized")
    error_of(get(f"Bearer {token[:13]}"), 401, "unauthorized")
    assert get(f"Bearer {token}").status_code == 200
    assert get(f"bearer  {token}").status_code == 200


def test_an_expired_key_is_refused():
    _, token = ApiKey.issue("k", scopes=["audit:read"], expires_at=timezone.now() - timedelta(seconds=1))
    assert "expired" in error_of(get(f"Bearer {token}"), 401, "unauthorized")["message"]


def test_a_revoked_key_is_refused_at_once():
    key, token = ApiKey.issue("k", scopes=["audit:read"])
    assert get(f"Bearer {token}").status_code == 200
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    error_of(get(f"Bearer {token}"), 401, "unauthorized")


def test_the_use_of_a_key_is_noted_once_a_minute():
    key, token = ApiKey.issue("k", scopes=["audit:read"])
    by_token(token).get(PATH)
    key.refresh_from_db()
    noted = key.last_used_at
    assert noted is not None
    by_token(token).get(PATH)
    key.refresh_from_db()
    assert key.last_used_at == noted
    assert history_of(key).count() == 1


def test_a_missing_scope_is_named():
    error = error_of(by_key("tools:list").get(PATH), 403, "forbidden")
    assert error["details"] == {"scope": "audit:read"}
    assert "audit:read" in error["message"]


def test_a_missing_permission_is_named():
    error = error_of(by_person().get(PATH), 403, "forbidden")
    assert error["details"] == {"permission": "invocations.view_mcptoolinvocation"}


def test_a_key_is_no_user_and_has_no_permissions():
    principal = KeyPrincipal(ApiKeyFactory.build(name="robot"))
    assert principal.is_authenticated
    assert not principal.has_perm("invocations.view_mcptoolinvocation")
    assert not principal.has_perms([])
    assert not principal.has_module_perms("invocations")
    assert "robot" in principal.get_username()


def test_a_browser_needs_the_csrf_token_to_write():
    person = UserFactory(is_superuser=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(person)
    response = client.patch(MAPPING, {"retryable": True}, content_type="application/json")
    assert "X-CSRFToken" in error_of(response, 403, "forbidden")["message"]
    assert client.get(MAPPING).status_code == 200


def test_a_person_who_was_switched_off_is_not_let_in():
    error_of(by_person(is_superuser=True, is_active=False).get(PATH), 401, "unauthorized")


@pytest.mark.parametrize("path", ["/api/nothing", "/api/nothing/", "/api/invocations//", "/api/%00"])
@pytest.mark.parametrize("method", ["get", "post", "delete", "options"])
def test_an_unknown_address_is_told_in_json(path, method):
    error_of(getattr(Client(), method)(path), 404, "not_found")


def send(raw, content_type="application/json"):
    return by_key("catalog:write").patch(MAPPING, raw, content_type=content_type)


@pytest.mark.parametrize("raw", [b"{", b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}', b"[" * 100_000, b'{"a":"\\ud800"}'])
def test_a_body_that_is_not_strict_json_is_refused(raw):
    error_of(send(raw), 400, "parse_error")


@pytest.mark.parametrize("raw", [b"[]", b"1", b"null", b'"x"'])
def test_a_body_that_is_not_an_object_is_refused(raw):
    assert list(error_of(send(raw), 400, "invalid_params")["details"]["fields"]) == ["*"]


def test_a_body_above_the_limit_is_refused(settings):
    settings.MCPHUB_MAX_BODY_BYTES = 100
    error = error_of(send(json.dumps({"message_template": "x" * 200})), 413, "payload_too_large")
    assert error["details"] == {"limit_bytes": 100}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "text/html"])
def test_another_content_type_is_refused(content_type):
    error_of(send(b"retryable=true", content_type), 415, "unsupported_media_type")


def test_who_accepts_no_json_is_told_in_json():
    response = by_key("audit:read").get(PATH, headers={"accept": "text/html"})
    error_of(response, 406, "not_acceptable")


def test_an_error_is_a_problem_of_rfc_9457():
    response = by_key("audit:read").options(PATH)
    assert response["Content-Type"] == "application/problem+json"
    told = response.json()
    assert (told["type"], told["title"], told["status"]) == ("about:blank", "Method Not Allowed", 405)
    assert told["detail"] == told["error"]["message"]


def test_options_is_not_served():
    response = by_key("audit:read").options(PATH)
    error_of(response, 405, "method_not_allowed")
    assert "OPTIONS" not in response["Allow"]


def test_an_unknown_failure_tells_nothing_of_itself(caplog):
    response = render_exception(RuntimeError("the secret"), {})
    assert response.status_code == 500
    assert response.data["error"]["code"] == "server_error"
    assert "secret" not in str(response.data)
    assert "the secret" in caplog.text


def test_a_database_that_is_away_is_a_503_to_try_again(caplog):
    response = render_exception(OperationalError("locked"), {})
    assert response.status_code == 503
    assert response.data["error"]["retryable"] is True
    assert response.data["error"]["code"] in CODES
    assert response["Retry-After"]


@pytest.mark.postgresql
def test_so_is_what_follows_a_failed_statement_of_a_transaction():
    with transaction.atomic(), connection.cursor() as cursor:
        with contextlib.suppress(DatabaseError):  # as Django's validation does
            cursor.execute("SELECT 1 / 0")
        with pytest.raises(InternalError) as met:
            cursor.execute("SELECT 1")
        transaction.set_rollback(True)
    assert is_away(met.value)
    assert not is_away(InternalError("some other"))


@pytest.mark.postgresql
def test_so_is_a_write_while_the_server_takes_none():
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(InternalError) as met:
            cursor.execute("DELETE FROM sessions_app_busevent")
        transaction.set_rollback(True)
    assert is_away(met.value)
    assert render_exception(met.value, {}).status_code == 503


def test_no_cache_on_the_way_keeps_an_answer():
    assert by_key("audit:read").get(PATH)["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize("host", ["evil.example", "local host", ""])
def test_a_foreign_host_is_told_in_json_where_a_program_asks(host):
    for path in ("/api/sessions/", "/api/none"):
        told = error_of(Client(headers={"host": host}).get(path), 400, "invalid_request")
        assert "MCPHUB_ALLOWED_HOSTS" in told["message"]
    assert Client(headers={"host": host}).get("/admin/login/")["Content-Type"].startswith("text/html")
