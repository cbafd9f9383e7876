"""Rules as rows: what is refused, versions, the second person, bundles, REST, what REST hides, trying on the record."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from mcphub.features.call_rules import recorded
from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.call_rules.rest import PolicyRuleViewSet
from sessions_app.history import source
from sessions_app.history.models import WaitingChange
from sessions_app.kit.rest.errors import Conflict
from sessions_app.models import AuditEvent
from tests.factories import GroupFactory, McpToolDefinitionFactory, McpToolInvocationFactory
from tests.mcphub.admin.conftest import _ground, log_in  # noqa: F401
from tests.rest import by_key, by_person, error_of
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.bundles import bundle

pytestmark = pytest.mark.django_db
LIST = "/api/policy-rules/"
PERMISSIONS = [f"tools_catalog.{what}_mcppolicyrule" for what in ("view", "add", "change", "delete")]


def a_rule(**fields: Any) -> McpPolicyRule:
    row: McpPolicyRule = McpPolicyRule.objects.create(**{"name": "rule", "condition": "args.a > 1", **fields})
    return row


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"condition": "args.a >"}, "condition"),
        ({"condition": "princpal.id == 1"}, "condition"),
        ({"applies_to": "tool"}, "target"),
        ({"target": "x"}, "target"),
        ({"applies_to": "toolset", "target": "nowhere"}, "target"),
        ({"name": "Not so"}, "name"),
        ({"priority": 5000}, "priority"),
        ({"ask_needed": 3}, "ask_needed"),
        ({"effect": "ask", "ask_group": "finanse"}, "ask_group"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_at_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        McpPolicyRule(**{"name": "rule", **fields}).full_clean()
    assert field in refused.value.message_dict


def test_a_group_that_does_not_exist_cannot_be_asked_and_the_next_name_is_offered() -> None:
    row = McpPolicyRule(name="rule", effect="ask", ask_group="finanse")
    GroupFactory(name="finance")
    with pytest.raises(ValidationError, match="Did you mean finance"):
        row.full_clean()
    row.enabled = False
    row.full_clean()  # one of a group that was deleted can be switched off
    row.enabled, row.ask_group = True, "finance"
    row.full_clean()


@pytest.mark.parametrize(
    ("fields", "unknown"),
    [
        ({"applies_to": "tool", "target": "pay pay.* refnd"}, ["refnd"]),
        ({"applies_to": "connection", "target": "shop"}, ["shop"]),
        ({"condition": '!("finance" in principal.groups) && "staf" in principal.groups'}, ["staf"]),
        ({"condition": "'finance' in principal.groups || args.to == \"x\""}, []),
    ],
)
def test_before_a_rule_is_saved_the_page_names_what_it_cannot_concern(
    fields: dict[str, Any],
    unknown: list[str],
    log_in: Any,  # noqa: F811
) -> None:
    McpToolDefinitionFactory(name="pay")
    GroupFactory(name="finance")
    assert McpPolicyRule(name="rule", **fields).unknown_names() == unknown
    whole = {"name": "rule", "effect": "deny", "applies_to": "all", "priority": 0, "enabled": "on", "ask_needed": 1}
    whole |= {"ask_decider": "another", "ask_seconds": 60, "words": "", **fields}
    told = log_in("Operator").post(reverse("admin:tools_catalog_mcppolicyrule_add") + "check/", whole).json()
    assert not any(told["errors"].values())
    for name in unknown:
        assert name in told["preview"]
    assert ("This hub has nothing" in told["preview"]) == bool(unknown)


def test_each_edit_is_a_version_and_an_event() -> None:
    row = a_rule()
    row.words = "Stop."
    row.save()
    assert row.version == 2
    event = AuditEvent.objects.filter(kind="policy_rule.changed").latest("pk")
    assert (event.before["words"], event.after["words"]) == ("", "Stop.")


def test_a_rule_of_the_database_whose_condition_no_longer_compiles_denies() -> None:
    a_rule()
    McpPolicyRule.objects.update(condition="nonsense(")
    rule = McpPolicyRule.objects.get().compiled()
    assert rule.broken


# The second person ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "is_held"),
    [
        ({"enabled": False}, True),
        ({"watching": True}, True),
        ({"condition": "args.a > 100"}, True),
        ({"effect": "ask"}, True),
        ({"valid_until": "2030-01-01T00:00:00Z"}, True),
        ({"words": "Stop."}, False),
        ({"priority": 3}, False),
        ({"condition": ""}, False),
    ],
)
def test_a_deny_in_force_is_loosened_by_two_and_tightened_by_one(change: dict[str, Any], is_held: bool) -> None:
    a_rule()
    answer = by_person(*PERMISSIONS).patch(f"{LIST}rule/", change, content_type="application/json")
    assert answer.status_code == (202 if is_held else 200), answer.json()
    assert WaitingChange.objects.count() == int(is_held)


def test_a_second_person_brings_a_change_of_times_into_force(django_user_model: Any) -> None:
    from sessions_app.history import deciding

    a_rule()
    change = {"valid_until": "2030-01-01T00:00:00Z"}
    by_person(*PERMISSIONS).patch(f"{LIST}rule/", change, content_type="application/json")
    second = django_user_model.objects.create_superuser("second", password="x")
    deciding.confirm(WaitingChange.objects.get().pk, second, "")
    ends = McpPolicyRule.objects.get().valid_until
    assert ends is not None
    assert ends.year == 2030


def test_an_allow_comes_switched_off_and_any_change_of_one_in_force_waits() -> None:
    person = by_person(*PERMISSIONS)
    answer = person.post(LIST, {"name": "new", "effect": "allow"}, content_type="application/json")
    assert answer.status_code == 202
    assert not McpPolicyRule.objects.get(name="new").enabled
    a_rule(effect="allow")
    answer = person.patch(f"{LIST}rule/", {"condition": ""}, content_type="application/json")
    assert answer.status_code == 202
    assert McpPolicyRule.objects.get(name="rule").condition == "args.a > 1"


def test_a_rule_that_decides_nothing_is_edited_by_one() -> None:
    a_rule(watching=True)
    answer = by_person(*PERMISSIONS).patch(
        f"{LIST}rule/", {"condition": "args.a > 5", "enabled": False}, content_type="application/json"
    )
    assert answer.status_code == 200
    assert WaitingChange.objects.count() == 0


def test_a_rule_in_force_is_not_removed_by_one() -> None:
    a_rule()
    person = by_person(*PERMISSIONS)
    assert person.delete(f"{LIST}rule/").status_code == 409
    McpPolicyRule.objects.update(watching=True)
    assert person.delete(f"{LIST}rule/").status_code == 204


def test_a_rule_that_came_into_force_since_the_request_read_it_stays(django_user_model: Any) -> None:
    a_rule(watching=True)
    read = McpPolicyRule.objects.get()
    McpPolicyRule.objects.update(watching=False)
    with source.edits_by(django_user_model.objects.create_user("first")), pytest.raises(Conflict):
        PolicyRuleViewSet().perform_destroy(read)
    assert McpPolicyRule.objects.exists()


# REST and bundles ----------------------------------------------------------------------------------


def test_rest_refuses_a_condition_at_its_field() -> None:
    answer = by_key("catalog:write").post(LIST, {"name": "x", "condition": "args.a >"}, content_type="application/json")
    assert "condition" in str(error_of(answer, 409, "conflict"))


def test_rest_hides_what_rules_hide_from_a_key() -> None:
    McpToolDefinitionFactory(name="pay")
    a_rule(condition="", applies_to="tool", target="pay")
    key, owner = by_key("tools:list"), by_key("tools:list", "catalog:write")
    assert key.get("/api/tool-definitions/pay/").status_code == 404
    assert owner.get("/api/tool-definitions/pay/").status_code == 200
    McpPolicyRule.objects.update(condition="args.a > 1")
    assert key.get("/api/tool-definitions/pay/").status_code == 200


def test_rules_round_trip_in_bundles() -> None:
    a_rule(valid_until="2030-01-01T00:00:00Z", words="Stop.", effect="ask", ask_needed=2)
    dumped = {"format": bundle.FORMAT, "policy_rules": bundle.dump()["policy_rules"]}
    McpPolicyRule.objects.all().delete()
    assert bundle.load(dumped, reason="test").created == ["rule"]
    assert bundle.load(dumped, reason="test").unchanged == ["rule"]
    assert bundle.dump()["policy_rules"] == dumped["policy_rules"]


def test_a_faulty_rule_of_a_bundle_is_refused_with_its_name_and_nothing_is_loaded() -> None:
    entries = [{"name": "good"}, {"name": "bad", "condition": "args.a >"}, {"name": "when", "valid_from": "soon"}]
    report = bundle.load({"format": bundle.FORMAT, "policy_rules": entries}, reason="test")
    assert [name for name, _ in report.refused] == ["bad", "policy_rules[2]"]
    assert not McpPolicyRule.objects.exists()


# On the record -------------------------------------------------------------------------------------


def test_a_rule_is_tried_on_the_calls_on_record() -> None:
    McpToolDefinitionFactory(name="pay")
    for number in range(4):
        McpToolInvocationFactory(tool_name="pay", arguments={"a": number})
    McpToolInvocationFactory(tool_name="pay", arguments={})
    McpToolInvocationFactory(tool_name="gone", arguments={"a": 9})
    found = recorded.verdicts(a_rule(applies_to="tool", target="pay").compiled(), seconds=PATIENCE_SECONDS)
    assert (found.looked_at, found.concerned, found.held, found.failed) == (6, 5, 2, 1)
    assert dict(found.reasons) == {"there is no a": 1}


def test_what_watching_rules_would_have_done_is_counted_from_the_record() -> None:
    for said in ("rule@1 deny, other@2 ask", "rule@2 deny", None):
        McpToolInvocationFactory(policy_watched=said)
    counts = recorded.watched()
    assert counts == {"rule": {"deny": 2}, "other": {"ask": 1}}


def test_who_may_not_read_bodies_does_not_learn_of_arguments_by_conditions(client: Any, django_user_model: Any) -> None:
    from django.contrib.auth.models import Permission

    McpToolDefinitionFactory(name="pay")
    McpToolInvocationFactory(tool_name="pay", arguments={"a": 5})
    row = a_rule(watching=True)
    user = django_user_model.objects.create_user("seer", password="x", is_staff=True)
    names = ["view_mcppolicyrule", "change_mcppolicyrule"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client.force_login(user)
    page = reverse("admin:tools_catalog_mcppolicyrule_change", args=[row.pk])
    assert "read the bodies" in client.get(page).content.decode()
    user.user_permissions.add(Permission.objects.get(codename="read_bodies"))
    assert "1 matched" in client.get(page).content.decode()
