"""Policy and legal holds are set in the admin; what proves the audit is shown there and never edited."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from invocations.chain.models import AuditBlock, AuditHold, AuditPolicy, AuditTombstone
from sessions_app.history.models import AuditEvent

pytestmark = pytest.mark.django_db


def test_the_policy_is_one_row_and_its_change_an_event(log_in) -> None:
    client = log_in("superuser")
    change = reverse("admin:invocations_auditpolicy_change", args=[1])
    assert client.post(change, {"rows_days": "30", "bodies_days": "40"}).status_code == 200  # bodies outlive no rows
    assert client.post(change, {"rows_days": "400", "bodies_days": "30"}).status_code == 302
    assert (AuditPolicy.current().rows_days, AuditPolicy.current().bodies_days) == (400, 30)
    assert client.get(reverse("admin:invocations_auditpolicy_add")).status_code == 403
    event = AuditEvent.objects.first()
    assert (event.kind, event.after["rows_days"]) == ("retention_policy.changed", 400)
    assert client.post(change, {"rows_days": "", "bodies_days": "30"}).status_code == 302
    assert AuditEvent.objects.first().before == {"rows_days": 400}


def test_no_limit_is_said_and_bodies_last_as_long_as_their_rows(log_in) -> None:
    client = log_in("superuser")
    page = reverse("admin:invocations_auditpolicy_changelist")
    assert client.get(page).content.decode().count("no limit") == 2
    AuditPolicy.objects.update_or_create(pk=1, defaults={"rows_days": 400})
    listed = client.get(page).content.decode()
    assert (listed.count(">400<"), "no limit" in listed) == (2, False)
    reader = log_in("Auditor")
    shown = reader.get(reverse("admin:invocations_auditpolicy_change", args=[1])).content.decode()
    assert shown.count("400") >= 2


def test_an_auditor_sets_and_releases_a_hold(log_in) -> None:
    client = log_in("Auditor")
    assert "key:&lt;id&gt;" in client.get(reverse("admin:invocations_audithold_add")).content.decode()
    assert (
        "Enter what the hold covers"
        in client.post(
            reverse("admin:invocations_audithold_add"), {"name": "case 7", "reason": "court"}
        ).content.decode()
    )
    client.post(
        reverse("admin:invocations_audithold_add"), {"name": "case 7", "reason": "court", "tool_name": "transfer"}
    )
    hold = AuditHold.objects.get()
    release = reverse("admin:invocations_audithold_release_hold", args=[hold.pk])
    assert "Retention can then remove" in client.get(release).content.decode()
    client.post(release, {"confirmed": "yes", "reason": "closed"})
    hold.refresh_from_db()
    assert hold.released_at is not None
    assert AuditEvent.objects.first().reason == "closed"
    change = reverse("admin:invocations_audithold_change", args=[hold.pk])
    client.post(change, {"name": "other", "reason": "x", "tool_name": "y"})
    hold.refresh_from_db()
    assert hold.name == "case 7"


def test_the_proof_is_shown_and_never_edited(log_in) -> None:
    now = timezone.now()
    block = AuditBlock.objects.create(
        number=0,
        header="{}",
        envelopes_through=0,
        invocations_through=0,
        events_through=0,
        first_position=0,
        row_count=1,
        sealed_at=now,
        key_id="abcd1234",
        tree_root="0" * 64,
        signature="x",
        nodes="",
    )
    spans = {f"{name}_{end}": 0 for name in ("envelopes", "invocations", "events") for end in ("after", "through")}
    stone = AuditTombstone.objects.create(
        kind="rows", first_block=0, last_block=0, row_count=1, text="{}", signature="x", removed_at=now, **spans
    )
    event = AuditEvent.objects.create(kind="tool.changed", subject_label="<b>echo</b>", before={"a": 1})
    client = log_in("superuser")
    models = (
        ("invocations_auditblock", block),
        ("invocations_audittombstone", stone),
        ("sessions_app_auditevent", event),
    )
    for model, row in models:
        change = reverse(f"admin:{model}_change", args=[row.pk])
        page = client.get(change)
        assert page.status_code == 200
        assert "<b>echo</b>" not in page.content.decode()
        assert client.post(change, {}).status_code == 403
        assert client.get(reverse(f"admin:{model}_add")).status_code == 403
        assert client.post(reverse(f"admin:{model}_delete", args=[row.pk])).status_code == 403


def test_the_history_of_the_configuration_is_found_by_what_and_by_whom(log_in, echo) -> None:
    others = set(AuditEvent.objects.exclude(kind="tool.created").values_list("pk", flat=True))
    operator, auditor = log_in("Operator"), log_in("Auditor")
    operator.post(
        reverse("admin:tools_catalog_mcptooldefinition_switch", args=[echo.pk]),
        {"enabled": "", "confirmed": "yes", "reason": "Friday"},
    )
    AuditEvent.objects.create(kind="key.created", subject_label="laptop", actor="machine", after={"name": "laptop"})
    AuditEvent.objects.create(kind="mcptoolapproval.created", subject_label="none", actor="machine")
    page = reverse("admin:sessions_app_auditevent_changelist")

    def found(**query: str) -> list[str]:
        shown = auditor.get(page, query).context["cl"].result_list
        return [event.kind for event in shown if event.pk not in others]

    assert found(about="tool") == ["tool.changed", "tool.created"]
    assert found(about="key") == ["key.created"]
    assert found(actor=f"user:{operator.user.pk}") == ["tool.changed"]
    assert found(about="key", actor=f"user:{operator.user.pk}") == []
    assert found(happened_at_from_0="2999-01-01") == []
    assert "enabled" in auditor.get(page, {"about": "tool"}).content.decode()
    event = AuditEvent.objects.get(kind="tool.changed")
    shown = auditor.get(reverse("admin:sessions_app_auditevent_change", args=[event.pk]))
    (field,) = shown.context["fields"]
    assert (field.field, field.rows[0].left, field.rows[0].right) == ("enabled", "true", "false")
    assert shown.content.decode().count("Friday") == 1
    assert "{&#x27;" not in shown.content.decode(), "what changed is in the difference alone"
    assert operator.get(page).status_code == 403
