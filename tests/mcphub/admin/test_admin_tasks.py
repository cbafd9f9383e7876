"""The pages of tasks: what they show to whom, and how an operator cancels."""

from __future__ import annotations

from django.urls import reverse

from invocations.models import McpTask
from sessions_app import bus
from sessions_app.models import BusEvent
from tests.factories import McpTaskFactory, McpToolInvocationFactory

LIST = "admin:invocations_mcptask_changelist"


def cancel(client, *tasks, **more):
    return client.post(
        reverse(LIST), {"action": "cancel_selected", "_selected_action": [task.pk for task in tasks], **more}
    )


def test_a_task_and_its_call_lead_to_each_other(log_in):
    made = McpToolInvocationFactory()
    task = McpTaskFactory(over=True, invocation_id=made.invocation_id, session=made.session)
    client = log_in("Auditor")
    call = reverse("admin:invocations_mcptoolinvocation_change", args=[made.pk])
    page = reverse("admin:invocations_mcptask_change", args=[task.pk])
    assert call in client.get(page).content.decode()
    assert page in client.get(call).content.decode()


def test_bodies_of_tasks_are_for_auditors(log_in):
    task = McpTaskFactory(
        over=True, result={"content": "a secret result"}, input_requests={"a": {"method": "a secret question"}}
    )
    page = reverse("admin:invocations_mcptask_change", args=[task.pk])
    for role, shown in (("Viewer", False), ("Auditor", True)):
        words = log_in(role).get(page).content.decode()
        assert ("a secret result" in words, "a secret question" in words) == (shown, shown)


def test_an_operator_cancels_what_is_open_after_confirming(log_in):
    task, over = McpTaskFactory(), McpTaskFactory(over=True)
    client = log_in("Operator")
    asked = cancel(client, task, over).content.decode()
    assert "Cancel 1 task?" in asked
    assert "1 had already ended." in asked
    assert McpTask.objects.get(pk=task.pk).state == "working"
    assert cancel(client, task, over, confirmed="yes").status_code == 302
    found = McpTask.objects.get(pk=task.pk)
    assert (found.state, found.result["isError"]) == ("cancelled", True)
    assert list(BusEvent.objects.filter(subject=bus.TASK_CHANGED).values_list("payload", flat=True)) == [task.task_id]
    assert McpTask.objects.get(pk=over.pk).state == "completed"


def test_who_may_not_cancel_is_not_offered_it(log_in):
    task = McpTaskFactory()
    client = log_in("Auditor")
    assert "cancel_selected" not in client.get(reverse(LIST)).content.decode()
    cancel(client, task, confirmed="yes")
    assert McpTask.objects.get().state == "working"


def test_a_task_is_found_by_its_id_or_its_call(log_in):
    task, other = McpTaskFactory(), McpTaskFactory()
    client = log_in("Viewer")
    for term in (task.task_id, task.invocation_id):
        found = client.get(reverse(LIST), {"q": term}).content.decode()
        assert reverse("admin:invocations_mcptask_change", args=[task.pk]) in found
        assert reverse("admin:invocations_mcptask_change", args=[other.pk]) not in found
