"""Rows of trusted issuers: what a row may say, who may enable it, and the page that explains a token."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.login.models import LinkedIdentity
from mcphub.features.signin.issuers import keys, trust
from mcphub.features.signin.issuers.models import Issuer
from mcphub.features.signin.issuers.trust import TokenRefused, Trust
from sessions_app.models import AuditEvent
from tests.factories import UserFactory
from tests.wire.issuing import ForeignIssuer, foreign_issuer

SECRET = "a secret of some length"
RULE = Trust(pk=1, name="work", issuer="https://login.example", algorithms=frozenset({"RS256", "ES256"}))


@pytest.fixture
def issuer(settings) -> Iterator[ForeignIssuer]:
    settings.MCPHUB_EGRESS_ALLOW = (*settings.MCPHUB_EGRESS_ALLOW, "127.0.0.1")
    with foreign_issuer() as made:
        yield made


def row_of(**changes: object) -> Issuer:
    return Issuer(**{"name": "work", "issuer": "https://login.example/realms/work", **changes})


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"issuer": "http://login.example"}, "issuer"),
        ({"issuer": "https://login.example/#x"}, "issuer"),
        ({"issuer": "https://user@login.example/"}, "issuer"),
        ({"issuer": "https://10.0.0.1/"}, "issuer"),
        ({"issuer": "http://127.0.0.1:8000"}, "issuer"),
        ({"keys_address": "file:///etc/passwd"}, "keys_address"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"algorithms": ["RS256", "HS256"]}, "algorithms"),
        ({"algorithms": []}, "algorithms"),
        ({"audiences": {"api://hub": "/admin"}}, "audiences"),
        ({"audiences": ["api://hub"]}, "audiences"),
        ({"scopes": {"use": ["audit:read"]}}, "scopes"),
        ({"scopes_always": ["everything"]}, "scopes_always"),
        ({"groups": {"devs": "no such group"}}, "groups"),
        ({"method": "asked"}, "client_id"),
    ],
)
@pytest.mark.django_db
def test_a_row_says_nothing_that_would_be_unsafe(changes, column) -> None:
    with pytest.raises(ValidationError) as refused:
        row_of(**changes).full_clean()
    assert column in refused.value.message_dict


@pytest.mark.django_db
def test_one_issuer_alone_is_asked_about_tokens_that_name_none() -> None:
    first = row_of(method="asked", client_id="hub", enabled=True)
    first.set_secret(SECRET)
    first.full_clean()
    first.save()
    second = row_of(name="other", issuer="https://other.example", method="asked", client_id="hub", enabled=True)
    second.set_secret(SECRET)
    with pytest.raises(ValidationError, match="already uses introspection"):
        second.full_clean()


def form(**changes: object) -> dict[str, object]:
    return {
        "issuer": "https://login.example/realms/work",
        "method": "signed",
        "algorithms": '["RS256"]',
        "audiences": "{}",
        "scope_claim": "scope",
        "scopes": "{}",
        "scopes_always": "[]",
        "person_claim": "preferred_username",
        "groups": "{}",
        **changes,
    }


@pytest.mark.django_db
def test_who_is_no_superuser_needs_a_second_person_to_enable_a_row(log_in) -> None:
    client = log_in("Operator")
    added = client.post(reverse("admin:signin_issuer_add"), form(name="work", enabled="on"))
    assert added.status_code == 302, added.context["errors"]
    row = Issuer.objects.get(name="work")
    assert not row.enabled
    page = reverse("admin:signin_issuer_change", args=[row.pk])
    Issuer.objects.update(enabled=True)
    # Whoever changes what was judged takes the row out of force until it is judged again.
    assert client.post(page, form(enabled="on", makes_people="on")).status_code == 302
    row.refresh_from_db()
    assert (row.enabled, row.makes_people) == (False, True)
    assert log_in("superuser").post(page, form(enabled="on")).status_code == 302
    row.refresh_from_db()
    assert row.enabled


@pytest.mark.django_db
def test_a_secret_goes_in_never_comes_out_and_follows_no_address(log_in) -> None:
    client = log_in("superuser")
    asked = {"method": "asked", "client_id": "hub", "question_address": "https://login.example/introspect"}
    added = client.post(reverse("admin:signin_issuer_add"), form(name="work", secret=SECRET, **asked))
    assert added.status_code == 302, added.context["errors"]
    row = Issuer.objects.get(name="work")
    assert row.trust().secret == SECRET
    page = reverse("admin:signin_issuer_change", args=[row.pk])
    assert SECRET not in client.get(page).content.decode()
    refused = client.post(page, form(**{**asked, "question_address": "https://evil.example/"}))
    assert "Enter the secret again" in refused.content.decode()
    row.refresh_from_db()
    assert (row.trust().secret, row.question_address) == (SECRET, "https://login.example/introspect")
    assert SECRET not in client.get(reverse("admin:signin_issuer_history", args=[row.pk])).content.decode()


def steps(answer) -> dict[str, bool]:
    found = answer.context["found"]
    return {check.kind: check.is_good for check in found.checks}


@pytest.mark.django_db
def test_the_test_explains_a_token_claim_by_claim_and_keeps_nothing(log_in, issuer, settings) -> None:
    endpoint = f"{settings.MCPHUB_PUBLIC_URL}/mcp"
    row = row_of(issuer=issuer.url)
    row.full_clean()
    row.save()
    client = log_in("Operator")
    page = reverse("admin:issuer_test", args=[row.pk])
    assert steps(client.post(page)) == {"document": True, "keys": True}
    UserFactory(username="anna")
    good = issuer.token(endpoint, "anna")
    answer = client.post(page, {"token": f"Bearer {good}"})
    assert answer.context["found"].is_accepted, answer.context["found"].checks
    assert "would be accepted" in answer.content.decode()
    assert good not in answer.content.decode()
    assert not LinkedIdentity.objects.exists()
    bad = issuer.token(endpoint, "nobody", aud="api://else", exp=int(time.time()) - 5)
    found = steps(client.post(page, {"token": bad}))
    assert [kind for kind, is_good in found.items() if not is_good] == ["audience", "lifetime", "person"]
    assert not steps(client.post(page, {"token": "no token"}))["form"]
    assert log_in("Auditor").post(page).status_code == 403


@pytest.mark.django_db
def test_a_document_of_another_issuer_is_refused(log_in, issuer) -> None:
    row = row_of(issuer=issuer.url.replace("/realms/work", ""))
    row.save()
    answer = log_in("superuser").post(reverse("admin:issuer_test", args=[row.pk]))
    assert steps(answer) == {"document": False, "keys": False}


@pytest.mark.django_db
def test_tokens_with_another_closing_slash_than_the_document_need_the_address_of_the_keys(
    log_in, issuer, settings
) -> None:
    """The refusal of the document names the entry of the row with which it is not read."""
    token = issuer.token(
        f"{settings.MCPHUB_PUBLIC_URL}/mcp", UserFactory(username="anna").username, iss=f"{issuer.url}/"
    )
    row = row_of(issuer=f"{issuer.url}/")
    row.save()
    client, page = log_in("superuser"), reverse("admin:issuer_test", args=[row.pk])
    answer = client.post(page, {"token": token})
    assert not steps(answer)["keys"]
    assert "JWKS URL" in answer.content.decode()
    row.keys_address = f"{issuer.url}/keys"
    row.save()
    answer = client.post(page, {"token": token})
    assert answer.context["found"].is_accepted, answer.context["found"].checks


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: f"ey{raw.hex()}.{raw.hex()}.x"))
def test_no_text_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(TokenRefused):
        assert isinstance(trust.opened(text).claims, dict)


_FINITE = st.floats(allow_nan=False, allow_infinity=False)  # no others are JSON
_CLAIM = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | _FINITE | st.text(max_size=50)


@given(
    st.dictionaries(
        st.sampled_from(["iss", "sub", "aud", "exp", "nbf", "iat", "scope", "client_id", "roles"]),
        _CLAIM | st.lists(_CLAIM, max_size=5) | st.dictionaries(st.text(max_size=5), _CLAIM, max_size=3),
    )
)
def test_no_claims_are_good_by_accident(claims) -> None:
    judged = trust.judge_claims(RULE, claims, time.time())
    with pytest.raises(TokenRefused):
        judged.demand()
    assert judged.scopes <= {"tools:list", "tools:call", "chat"}


def test_of_a_key_set_only_what_can_check_signatures_is_used() -> None:
    elliptic = ec.generate_private_key(ec.SECP256R1())
    good = {**jwt.algorithms.ECAlgorithm.to_jwk(elliptic.public_key(), as_dict=True), "kid": "good"}
    private = {**jwt.algorithms.ECAlgorithm.to_jwk(elliptic, as_dict=True), "kid": "private"}
    odd = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {**good, "use": "enc"},
        {**good, "kid": 7},
        None,
        {"kty": []},
    ]
    found = keys.usable([good, private, *odd, {**good, "key_ops": ["sign"]}, {"kty": "RSA", "n": "AQAB", "e": "AQAB"}])
    assert [key.id for key in found] == ["good"]
    assert keys.chosen(found, "good", "ES256") is found[0]
    assert keys.chosen(found, "", "ES256") is found[0]
    assert keys.chosen(found, "good", "ES384") is None
    assert keys.chosen(found, "other", "ES256") is None
    assert len(keys.usable([good] * 1000)) == keys.MOST_KEYS


@pytest.mark.django_db
def test_an_operator_sees_the_people_of_an_issuer_and_unlinks_them(log_in) -> None:
    row = row_of()
    row.save()
    anna = LinkedIdentity.make(UserFactory(username="anna"), row.issuer, "s", row.name, by_name=True)
    LinkedIdentity.make(UserFactory(username="boris"), "https://elsewhere.example", "s", "elsewhere")
    client = log_in("Operator")
    page = client.get(reverse("admin:signin_issuer_show_people", args=[row.pk]), follow=True).content.decode()
    assert "anna" in page
    assert "boris" not in page
    chosen = {"_selected_action": [anna.pk], "confirmed": "1", "reason": "known at the desk"}
    listed = reverse("admin:login_linkedidentity_changelist")
    client.post(listed, {"action": "confirm_selected", **chosen})
    anna.refresh_from_db()
    assert anna.by_name  # to confirm opens a way into the console, and is a superuser's
    log_in("superuser").post(listed, {"action": "confirm_selected", **chosen})
    anna.refresh_from_db()
    assert not anna.by_name
    assert AuditEvent.objects.get(kind="identity.confirmed").reason == "known at the desk"
    log_in("Operator").post(listed, {"action": "unlink_selected", **chosen})
    assert not LinkedIdentity.objects.filter(pk=anna.pk).exists()


@pytest.mark.django_db
def test_groups_of_a_row_are_groups_of_the_hub() -> None:
    group = Group.objects.create(name="Developers")
    row = row_of(groups={"devs": "Developers"}, groups_claim="roles")
    row.full_clean()
    row.save()
    assert row.trust().groups == {"devs": (group.pk,)}
