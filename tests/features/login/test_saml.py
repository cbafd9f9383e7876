"""Logins by SAML, against pysaml2's identity provider: whom it lets in, and what no response may do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.test import Client
from lxml import etree

from mcphub.features.login.models import LinkedIdentity, LoginProvider
from mcphub.features.login.providers import probe
from sessions_app.models import AuditEvent
from tests.identity.saml import ISSUER, WITHOUT_XMLSEC, SamlProvider, posted

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.program, pytest.mark.rig, WITHOUT_XMLSEC]

HUB = "https://hub.example/saml"
ADA = {"uid": ["ada"], "mail": ["ada@firm.example"], "givenName": ["Ada"], "sn": ["L"], "groups": ["ops", "other"]}
NS = {"samlp": "urn:oasis:names:tc:SAML:2.0:protocol", "saml": "urn:oasis:names:tc:SAML:2.0:assertion"}


def visitor() -> Client:
    """Return a browser at the hub's public address."""
    return Client(headers={"host": "127.0.0.1:8000"})


@pytest.fixture(scope="module")
def idp(tmp_path_factory: pytest.TempPathFactory) -> SamlProvider:
    return SamlProvider(tmp_path_factory.mktemp("idp"))


@pytest.fixture
def row(idp: SamlProvider) -> LoginProvider:
    row = LoginProvider(
        name="Firm",
        slug="firm",
        kind="saml",
        issuer=ISSUER,
        client_id=HUB,
        login_address=idp.login,
        certificates=idp.pem.read_text(),
        admits="everybody",
        username_claim="uid",
        email_claim="mail",
        groups={"ops": ["Operator"]},
    )
    row.full_clean()
    row.save()
    answer = visitor().get("/login/with/firm/metadata/")
    assert answer["Content-Type"] == "application/samlmetadata+xml"
    idp.meets(answer.content)
    return row


class Browser:
    """Somebody who logs in; pages of others bring its cookies with no POST."""

    def __init__(self, idp: SamlProvider) -> None:
        self.idp, self.http = idp, visitor()

    def begins(self) -> Any:
        answer = self.http.get("/login/with/firm/?next=/me/")
        assert answer.status_code == 302, answer.content
        return self.idp.asked(answer["Location"])

    def brings(self, response: bytes) -> Any:
        """Post a response from the provider's page, and follow as far as the hub leads."""
        foreign = visitor()
        answer = foreign.post("/login/back/firm/", posted(response))
        if answer.status_code != 303:
            return answer
        self.http.cookies.update(foreign.cookies)
        return self.http.get(answer["Location"])

    @property
    def is_in(self) -> bool:
        return "_auth_user_id" in self.http.session


@pytest.fixture
def browser(idp: SamlProvider, row: LoginProvider) -> Browser:
    return Browser(idp)


def refused(browser: Browser, answer: Any) -> str:
    """Return the code under which a refusal is on record."""
    assert not browser.is_in
    assert answer.status_code in (400, 403), answer.status_code
    assert "Nobody was logged in." in answer.content.decode()
    return str(AuditEvent.objects.filter(kind="login.refused").latest("pk").after["code"])


def test_a_person_logs_in_with_name_address_and_groups(browser: Browser) -> None:
    answer = browser.brings(browser.idp.answers(browser.begins(), "subject-1", ADA))
    assert (answer.status_code, answer["Location"]) == (302, "/me/")
    user = User.objects.get(username="ada")
    assert (user.email, user.get_full_name(), user.is_staff) == ("ada@firm.example", "Ada L", True)
    assert [group.name for group in user.groups.all()] == ["Operator"]
    link = LinkedIdentity.objects.get(user=user)
    assert (link.issuer, link.subject) == (ISSUER, "subject-1")
    said = AuditEvent.objects.filter(kind="login.succeeded").latest("pk")
    assert said.after["by"] == "provider:firm"
    again = Browser(browser.idp)
    again.brings(browser.idp.answers(again.begins(), "subject-1", {**ADA, "groups": []}))
    assert again.is_in
    assert not User.objects.get(username="ada").is_staff


def test_an_assertion_counts_once(browser: Browser) -> None:
    request = browser.begins()
    kept = browser.http.cookies["mcphub_login"].value
    response = browser.idp.answers(request, "subject-1", ADA)
    browser.brings(response)
    assert browser.is_in
    thief = Browser(browser.idp)
    thief.http.cookies["mcphub_login"] = kept
    assert refused(thief, thief.brings(response)) == "state"


def test_a_response_counts_only_in_the_browser_that_asked(browser: Browser) -> None:
    response = browser.idp.answers(browser.begins(), "subject-1", ADA)
    other = Browser(browser.idp)
    assert refused(other, other.brings(response)) == "cookie"
    other.begins()
    assert refused(other, other.brings(response)) == "state"


# What a response may not be --------------------------------------------------------------------------------

Answered = Callable[[Browser, Any], bytes]


def edited(change: Callable[[etree._Element], None]) -> Answered:
    """Change a response after it was signed."""

    def answer(browser: Browser, request: Any) -> bytes:
        root = etree.fromstring(browser.idp.answers(request, "subject-1", ADA))
        change(root)
        return etree.tostring(root)

    return answer


def _assertion(root: etree._Element) -> etree._Element:
    found = root.find("saml:Assertion", NS)
    assert found is not None
    return found


def _forged(signed: etree._Element, number: str = "_evil") -> etree._Element:
    """Return a copy of an assertion, unsigned, of somebody else."""
    copy = etree.fromstring(etree.tostring(signed))
    copy.set("ID", number)
    for signature in copy.findall("{*}Signature"):
        copy.remove(signature)
    name = copy.find(".//saml:NameID", NS)
    assert name is not None
    name.text = "root"
    return copy


def another_name(root: etree._Element) -> None:
    name = root.find(".//saml:NameID", NS)
    assert name is not None
    name.text = "root"


def forged_before(root: etree._Element) -> None:
    signed = _assertion(root)
    signed.addprevious(_forged(signed))


def forged_around(root: etree._Element) -> None:
    """The signed assertion stands within the forged one's signature."""
    signed = _assertion(root)
    forged = _forged(signed)
    root.replace(signed, forged)
    forged.append(signed)


def forged_with_its_id(root: etree._Element) -> None:
    signed = _assertion(root)
    forged = _forged(signed, signed.get("ID", ""))
    root.replace(signed, forged)
    extensions = etree.Element(f"{{{NS['samlp']}}}Extensions")
    extensions.append(signed)
    root.insert(1, extensions)


def forged_with_a_moved_signature(root: etree._Element) -> None:
    signed = _assertion(root)
    forged = _forged(signed)
    signature = signed.find("{*}Signature")
    assert signature is not None
    root.replace(signed, forged)
    forged.insert(1, signature)
    holder = etree.SubElement(signature, "{http://www.w3.org/2000/09/xmldsig#}Object")
    holder.append(signed)


def no_signature(root: etree._Element) -> None:
    signed = _assertion(root)
    for signature in signed.findall("{*}Signature"):
        signed.remove(signature)


HOSTILE: dict[str, Answered] = {
    "unsigned": lambda browser, request: browser.idp.answers(request, "subject-1", ADA, sign_assertion=False),
    "of the response alone": lambda browser, request: browser.idp.answers(
        request, "subject-1", ADA, sign_assertion=False, sign_response=True
    ),
    "for another service": lambda browser, request: browser.idp.answers(
        request, "subject-1", ADA, sp_entity_id="https://other.example/saml"
    ),
    "sent elsewhere": lambda browser, request: browser.idp.answers(
        request, "subject-1", ADA, destination="https://other.example/login/back/firm/"
    ),
    "unasked": lambda browser, request: browser.idp.answers(request, "subject-1", ADA, in_response_to=None),
    "by a weak digest": lambda browser, request: browser.idp.answers(
        request,
        "subject-1",
        ADA,
        sign_alg="http://www.w3.org/2000/09/xmldsig#rsa-sha1",
        digest_alg="http://www.w3.org/2000/09/xmldsig#sha1",
    ),
    "signature taken away": edited(no_signature),
    "name changed": edited(another_name),
    "wrapped: forged one first": edited(forged_before),
    "wrapped: signed one inside": edited(forged_around),
    "wrapped: the same id": edited(forged_with_its_id),
    "wrapped: signature moved": edited(forged_with_a_moved_signature),
    "with entities": lambda browser, request: (
        b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
        + browser.idp.answers(request, "subject-1", ADA)
        .replace(b'<?xml version="1.0"?>', b"")
        .replace(b"subject-1", b"&b;")
    ),
    "no XML": lambda browser, request: b"\x00<",
    "nothing": lambda browser, request: b"",
    "too large": lambda browser, request: b"<" + b"x" * 300_000,
}


REASONS = {
    "unsigned": "is not signed",
    "of the response alone": "is not signed",
    "for another service": "not a valid audience",
    "sent elsewhere": "instead of https://other.example",
    "unasked": "answers no request",
    "by a weak digest": "Deprecated",
    "signature taken away": "is not signed",
    "name changed": "Signature validation failed",
    "wrapped: forged one first": "must contain 1 assertion",
    "wrapped: signed one inside": "must contain 1 assertion",
    "wrapped: the same id": "must contain 1 assertion",
    "wrapped: signature moved": "must contain 1 assertion",
    "with entities": "DTDForbidden",
    "no XML": "empty",
    "nothing": "no response",
    "too large": "too large",
}
"""What the history says of each, so that none is refused for another reason than it is here for."""


@pytest.mark.parametrize("case", HOSTILE)
def test_a_response_that_is_not_what_it_should_be_logs_nobody_in(browser: Browser, case: str) -> None:
    response = HOSTILE[case](browser, browser.begins())
    assert refused(browser, browser.brings(response)) in ("assertion", "code")
    assert REASONS[case] in AuditEvent.objects.filter(kind="login.refused").latest("pk").after["detail"]
    assert not User.objects.filter(username__in=["ada", "root"]).exists()


def test_a_comment_within_a_name_cuts_nothing_off(browser: Browser) -> None:
    """Canonical XML leaves comments out of what is signed."""
    response = browser.idp.answers(browser.begins(), "root.evil.example", ADA)
    browser.brings(response.replace(b"root.evil.example", b"root<!-- -->.evil.example"))
    assert browser.is_in
    assert LinkedIdentity.objects.get().subject == "root.evil.example"


def test_a_response_of_another_provider_or_key_logs_nobody_in(browser: Browser, tmp_path: Path) -> None:
    metadata = visitor().get("/login/with/firm/metadata/").content
    for name, issuer in (("other", ISSUER), ("another", "https://other.example/saml")):
        (tmp_path / name).mkdir()
        stranger = SamlProvider(tmp_path / name, name, issuer)
        stranger.meets(metadata)
        response = stranger.answers(browser.begins(), "subject-1", ADA)
        assert refused(browser, browser.brings(response)) == "assertion"


def test_an_assertion_that_is_over_logs_nobody_in(browser: Browser) -> None:
    metadata = visitor().get("/login/with/firm/metadata/").content
    browser.idp.meets(metadata, lifetime={"minutes": -30})
    assert refused(browser, browser.brings(browser.idp.answers(browser.begins(), "subject-1", ADA))) == "assertion"


def test_two_certificates_are_taken_while_the_provider_changes_them(
    browser: Browser, row: LoginProvider, tmp_path: Path
) -> None:
    following = SamlProvider(tmp_path, "next")
    row.certificates += following.pem.read_text()
    row.full_clean()
    row.save()
    following.meets(visitor().get("/login/with/firm/metadata/").content)
    browser.brings(following.answers(browser.begins(), "subject-1", ADA))
    assert browser.is_in


def test_who_may_come_and_the_end_of_an_account_hold_here_too(browser: Browser, row: LoginProvider) -> None:
    LoginProvider.objects.filter(pk=row.pk).update(admits="invited")
    assert refused(browser, browser.brings(browser.idp.answers(browser.begins(), "subject-1", ADA))) == "invited"
    LinkedIdentity.make(User.objects.create_user("ada", is_active=False), ISSUER, "subject-1", "Firm")
    assert refused(browser, browser.brings(browser.idp.answers(browser.begins(), "subject-1", ADA))) == "inactive"


# The row ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("login_address", "http://idp.firm.example/login"),
        ("login_address", "javascript:alert(1)"),
        ("certificates", "none"),
        ("client_id", ""),
    ],
)
def test_a_row_that_could_not_work_is_not_saved(row: LoginProvider, field: str, value: str) -> None:
    setattr(row, field, value)
    with pytest.raises(ValidationError) as refusal:
        row.full_clean()
    assert field in refusal.value.message_dict


def test_the_test_of_a_row_names_its_certificates_with_their_ends(row: LoginProvider) -> None:
    steps = probe.probe(row)
    assert all(step.is_good for step in steps)
    assert re.search(r"CN=firm\n\d{4}-\d\d-\d\d", "\n".join(step.detail for step in steps))


def test_a_provider_of_openid_connect_takes_no_post_and_has_no_metadata() -> None:
    LoginProvider.objects.create(name="O", slug="o", issuer="https://login.firm.example", client_id="hub")
    assert visitor().post("/login/back/o/", posted(b"x")).status_code == 405
    assert visitor().get("/login/with/o/metadata/").status_code == 404


def test_groups_of_the_hub_are_given_by_the_row_alone(browser: Browser) -> None:
    Group.objects.create(name="other")
    browser.brings(browser.idp.answers(browser.begins(), "subject-1", ADA))
    assert [group.name for group in User.objects.get(username="ada").groups.all()] == ["Operator"]
