"""Access reviews: what one begins with, who decides, what taking away does, and what stays after the due date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from mcphub.features.access_review import deciding, states
from mcphub.features.access_review.models import AccessReview, ReviewedGrant
from sessions_app import accountable
from sessions_app.models import ApiKey, AuditEvent, McpWorkspace
from sessions_app.workspaces.scope import Scope, acting_in
from tests.factories import McpToolDefinitionFactory, McpToolInvocationFactory, McpToolsetFactory, UserFactory
from tests.rest import by_key, error_of

pytestmark = pytest.mark.django_db

REVIEWS, GRANTS = "/api/access-reviews/", "/api/reviewed-grants/"
LONG_AGO = timedelta(days=200)
RIGHTS = ("decide_accessreview", "view_accessreview", "view_reviewedgrant", "add_accessreview", "change_accessreview")


def person(name: str, *rights: str, **fields: Any) -> User:
    made: User = UserFactory(username=name, is_staff=bool(rights), **fields)
    made.user_permissions.set(Permission.objects.filter(codename__in=rights))
    return User.objects.get(pk=made.pk)


def start(*reviewers: User, **fields: Any) -> AccessReview:
    review = AccessReview(**{"name": "Q3", "due_at": timezone.now() + timedelta(days=30), **fields})
    return deciding.start(review, reviewers, None)


def row(review: AccessReview, **found: Any) -> ReviewedGrant:
    made: ReviewedGrant = review.rows.get(**found)
    return made


def decide(row: ReviewedGrant, word: str, user: User | None, reason: str = "left the team") -> str:
    (done,) = deciding.decide(row.review, [row], word, reason, user)
    return done.problem


def make_late(review: AccessReview) -> None:
    AccessReview.objects.filter(pk=review.pk).update(due_at=timezone.now() - timedelta(minutes=1))
    review.refresh_from_db()


@pytest.fixture
def payers() -> Group:
    return Group.objects.create(name="payers")


@pytest.fixture
def rita() -> User:
    """A reviewer who may take everything away."""
    return person("rita", *RIGHTS, is_superuser=True)


@pytest.fixture
def anna(payers: Group) -> User:
    """The person who pays, with a call within 90 days."""
    pay = McpToolDefinitionFactory(name="pay.refund")
    pay.groups.add(payers)
    McpToolDefinitionFactory(name="echo")
    McpToolsetFactory(slug="money", patterns="pay.*").groups.add(payers)
    anna = person("anna")
    anna.groups.add(payers)
    McpToolInvocationFactory(tool_name="pay.refund", principal=f"user:{anna.pk}", started_at=timezone.now())
    return anna


def test_it_begins_with_who_may_call_what_by_which_grant_and_when_they_last_did(
    anna: User, payers: Group, rita: User
) -> None:
    old = person("olga", date_joined=timezone.now() - LONG_AGO)
    old.groups.add(payers)
    key, _text = ApiKey.issue("robot", scopes=["tools:call"], service="billing", groups=[payers])
    review = start(rita)
    membership = row(review, principal=f"user:{anna.pk}", kind="membership")
    assert (membership.grant, membership.tool_names, membership.is_unused) == ("payers", ["pay.refund"], False)
    assert membership.last_used_at is not None
    assert membership.through == {"toolsets": ["money"]}
    unused = row(review, principal=f"user:{old.pk}", kind="membership")
    assert (unused.last_used_at, unused.is_unused) == (None, True)
    account = row(review, principal=f"user:{anna.pk}", kind="account")
    assert account.tool_names == ["echo"]
    by_robot = row(review, kind="key")
    assert (by_robot.principal, by_robot.tool_names) == (f"key:{key.pk}", ["echo", "pay.refund"])
    assert by_robot.through["service_account"] == "billing"
    started = AuditEvent.objects.get(kind="access_review.started")
    assert started.after["rows"] == review.rows.count()


def test_a_review_of_tools_or_of_a_group_has_its_grants_alone(anna: User, payers: Group, rita: User) -> None:
    person("bob")
    by_tools = start(rita, tools="pay.*")
    assert [(each.label, each.kind) for each in by_tools.rows.all()] == [("anna", "membership")]
    by_group = start(rita, group=payers)
    assert [(each.label, each.grant) for each in by_group.rows.all()] == [("anna", "payers")]
    with pytest.raises(ValidationError, match="No tool has such a name"):
        start(rita, tools="nothing.*")


def test_taking_away_is_the_consoles_own_verb_and_on_record(anna: User, payers: Group, rita: User) -> None:
    key, _text = ApiKey.issue("robot", scopes=["tools:call"])
    review = start(rita)
    assert decide(row(review, kind="membership"), "take_away", rita) == ""
    assert not anna.groups.exists()
    assert decide(row(review, kind="key"), "take_away", rita, "unused") == ""
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert decide(row(review, principal=f"user:{anna.pk}", kind="account"), "take_away", rita) == ""
    anna.refresh_from_db()
    assert not anna.is_active
    told = AuditEvent.objects.filter(kind="access_review.took_away").order_by("pk")
    assert [(each.after["who"], each.reason) for each in told] == [
        ("anna", "left the team"),
        ("robot", "unused"),
        ("anna", "left the team"),
    ]
    again = decide(row(review, kind="key"), "keep", rita)
    assert "already taken away" in again


def test_a_reviewer_does_not_decide_about_their_own_access_nor_by_a_key_that_they_made(rita: User) -> None:
    superuser = person("sue", is_superuser=True)
    key, _text = ApiKey.issue("robot", scopes=["tools:call"])
    accountable.name(key.credential, [rita.pk])
    review = start(rita, superuser)
    for own in (row(review, principal=f"user:{rita.pk}"), row(review, kind="key")):
        assert "their own access" in decide(own, "keep", rita)
        assert "their own access" in decide(own, "take_away", rita)
        assert decide(own, "keep", superuser) == ""
    assert "their own access" in decide(row(review, principal=f"user:{superuser.pk}"), "keep", superuser)


def test_a_reviewer_takes_away_no_more_than_the_console_would_let_them(anna: User) -> None:
    clerk, strange = person("clerk", *RIGHTS), person("strange", *RIGHTS)
    chief = person("chief", is_superuser=True)
    key, _text = ApiKey.issue("robot", scopes=["tools:call"])
    review = start(clerk)
    assert "sessions_app.change_apikey" in decide(row(review, kind="key"), "take_away", clerk)
    assert "auth.change_user" in decide(row(review, kind="membership"), "take_away", clerk)
    clerk.user_permissions.add(Permission.objects.get(codename="change_user"))
    clerk = User.objects.get(pk=clerk.pk)
    assert "superuser" in decide(row(review, principal=f"user:{chief.pk}"), "take_away", clerk)
    assert "last superuser" in decide(row(review, principal=f"user:{chief.pk}"), "take_away", None)
    with pytest.raises(ValidationError, match="not a reviewer"):
        decide(row(review, kind="key"), "keep", strange)
    with pytest.raises(ValidationError, match="reason"):
        decide(row(review, kind="key"), "take_away", clerk, " ")
    assert ApiKey.objects.get(pk=key.pk).revoked_at is None


def test_what_is_undecided_at_the_due_date_stays_and_is_overdue(anna: User, rita: User) -> None:
    review = start(rita)
    make_late(review)
    membership = row(review, kind="membership")
    assert (review.state, membership.state) == ("overdue", "overdue")
    with pytest.raises(ValidationError, match="is overdue"):
        decide(membership, "take_away", rita)
    assert anna.groups.exists()
    deciding.close(review, rita, "nobody answered")
    assert row(review, kind="membership").state == "overdue"
    with pytest.raises(ValidationError, match="closed"):
        decide(membership, "keep", rita)


def test_notices_remind_before_the_due_date_and_after_it_until_all_is_decided(rita: User) -> None:
    other = person("bob", *RIGHTS)
    review = start(rita, other, due_at=timezone.now() + timedelta(days=6))
    far = start(rita, due_at=timezone.now() + timedelta(days=60))
    (facts,) = states.due().values()
    assert (facts["review"], facts["count"], facts["reviewers"]) == ("Q3", review.rows.count(), "bob, rita")
    assert states.overdue() == {}
    make_late(review)
    assert (states.due(), list(states.overdue())) == ({}, [str(review.pk)])
    deciding.close(review, rita)
    make_late(far)
    far.rows.update(decision="keep", decided_at=timezone.now())
    assert states.overdue() == {}


def test_evidence_has_the_reviews_of_its_period(anna: User, rita: User) -> None:
    review, now = start(rita), timezone.now()
    decide(row(review, kind="membership"), "take_away", rita)
    lines = list(states.evidence(now - timedelta(days=1), now + timedelta(days=1)))
    (taken,) = [line for line in lines if line["decision"] == "take_away"]
    assert (taken["who"], taken["by"], taken["decided_by"], taken["reason"]) == (
        "anna", "payers", "rita", "left the team",
    )  # fmt: skip
    assert {line["decision"] for line in lines} == {"take_away", "undecided"}
    assert list(states.evidence(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 4, 1, tzinfo=UTC))) == []


def test_many_keys_and_many_tools_are_a_row_each_not_a_product(rita: User, django_assert_max_num_queries: Any) -> None:
    for number in range(60):
        McpToolDefinitionFactory(name=f"tool.{number:03}")
    for number in range(30):
        ApiKey.issue(f"robot {number}", scopes=["tools:call"])
    with django_assert_max_num_queries(120):
        review = start(rita)
    keys = review.rows.filter(kind="key")
    assert keys.count() == 30
    assert {(each.tool_count, len(each.tool_names)) for each in keys} == {(60, 50)}


# Workspaces, over REST and the console ----------------------------------------------------------------------


@pytest.fixture
def two(rita: User) -> dict[str, Any]:
    """Two workspaces with an auditor and a key each, and a review of the whole hub."""
    made: dict[str, Any] = {}
    for slug in ("ours", "theirs"):
        group = Group.objects.create(name=f"{slug} leads")
        workspace = McpWorkspace.objects.create(slug=slug)
        workspace.auditors.add(group)
        workspace.operators.add(group)
        lead, second = person(f"{slug}-lead"), person(f"{slug}-second")
        lead.groups.add(group)
        second.groups.add(group)
        McpToolDefinitionFactory(name=f"{slug}.tool", workspace=workspace)
        ApiKey.issue(f"{slug} key", scopes=["tools:call"], workspace=workspace)
        client = Client()
        client.force_login(lead)
        made[slug] = {"workspace": workspace, "lead": lead, "client": client}
    start(rita, name="Of the hub")
    return made


def post(client: Client, where: str, **body: Any) -> Any:
    return client.post(where, body, content_type="application/json")


def test_a_workspaces_auditor_starts_sees_and_decides_its_own_alone(two: dict[str, Any]) -> None:
    due = (timezone.now() + timedelta(days=9)).isoformat()
    for slug, own in two.items():
        made = post(own["client"], REVIEWS, name=f"Of {slug}", due_at=due, reviewers=[own["lead"].username])
        assert (made.status_code, made.json()["workspace"]) == (201, slug), made.content
        own["review"] = made.json()["id"]
    ours, theirs = two["ours"]["client"], two["theirs"]
    assert [each["name"] for each in ours.get(REVIEWS).json()["results"]] == ["Of ours"]
    text = ours.get(GRANTS).content.decode()
    assert "ours key" in text
    assert "theirs" not in text
    assert "rita" not in text
    foreign = ReviewedGrant.objects.get(review=theirs["review"], kind="key")
    assert ours.get(f"{REVIEWS}{theirs['review']}/").status_code == 404
    assert post(ours, f"{REVIEWS}{theirs['review']}/decide/", grants=[foreign.pk], decision="keep").status_code == 404
    mixed = post(ours, f"{REVIEWS}{two['ours']['review']}/decide/", grants=[foreign.pk], decision="keep").json()
    assert mixed[0]["problem"]
    for page in ("accessreview", "reviewedgrant"):
        html = ours.get(f"/admin/access_review/{page}/").content.decode()
        assert "theirs" not in html
        assert "Of the hub" not in html
    own = ReviewedGrant.objects.get(review=two["ours"]["review"], kind="key")
    taken = post(
        ours, f"{REVIEWS}{two['ours']['review']}/decide/", grants=[own.pk], decision="take_away", reason="unused"
    ).json()
    assert taken == [{"id": own.pk, "state": "take_away", "problem": ""}]
    assert ApiKey.objects.get(pk=own.subject).revoked_at is not None
    with acting_in(Scope(two["ours"]["workspace"].pk, "ours")):
        now = timezone.now()
        found = list(states.evidence(now - timedelta(days=1), now + timedelta(days=1)))
    assert {line["review"] for line in found} == {"Of ours"}


def test_rest_refuses_keys_unknown_grants_and_reviewers_who_could_not_decide(rita: User) -> None:
    client = Client()
    client.force_login(rita)
    due = (timezone.now() + timedelta(days=9)).isoformat()
    person("bob")
    refused = post(client, REVIEWS, name="Q3", due_at=due, reviewers=["bob"])
    assert "bob can't decide" in error_of(refused, 409, "conflict")["details"]["fields"]["reviewers"][0]
    past = post(client, REVIEWS, name="Q3", due_at="2026-01-01T00:00:00Z", reviewers=["rita"])
    assert "due_at" in error_of(past, 409, "conflict")["details"]["fields"]
    made = post(client, REVIEWS, name="Q3", due_at=due, reviewers=["rita"]).json()
    by_program = by_key("audit:read", "keys:write")
    assert by_program.get(f"{REVIEWS}{made['id']}/").json()["undecided"] == made["grants"]
    error_of(post(by_program, f"{REVIEWS}{made['id']}/decide/", grants=[1], decision="keep"), 403, "forbidden")
    answers = post(client, f"{REVIEWS}{made['id']}/decide/", grants=[10**9], decision="keep").json()
    assert "no such grant" in answers[0]["problem"]
    assert post(client, f"{REVIEWS}{made['id']}/close/").json()["state"] == "closed"
    error_of(post(client, f"{REVIEWS}{made['id']}/close/"), 409, "conflict")


def test_the_reviews_page_links_to_its_undecided_and_unused_grants(rita: User) -> None:
    person("olga", date_joined=timezone.now() - LONG_AGO)
    review, client = start(rita), Client()
    client.force_login(rita)
    page = client.get(f"/admin/access_review/accessreview/{review.pk}/change/").content.decode()
    link = f"/admin/access_review/reviewedgrant/?review={review.pk}&amp;decision=undecided&amp;is_unused=yes"
    assert link in page
    rows = client.get(link.replace("&amp;", "&")).context["cl"].result_list
    assert [each.label for each in rows] == ["olga"]
