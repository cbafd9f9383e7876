"""What happens to a hub's notices beside it: subscriptions, states that begin and end, what became of deliveries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def subscribe(way: str, address: str, secret: str = "", person: str = "chief", **fields: Any) -> int:
    """Make a subscription of a superuser, who is made too; give its number."""
    from django.contrib.auth.models import User

    from mcphub.features.notifications.models import Subscription

    user, _made = User.objects.get_or_create(username=person, defaults={"is_superuser": True, "is_staff": True})
    row = Subscription(person=user, name=fields.pop("name", way), way=way, group_seconds=0, **fields)
    row.set_address(address)
    if secret:
        row.set_secret(secret)
    row.full_clean()
    row.save()
    return row.pk


def approval(id_: str, *, waits: bool) -> None:
    """Have a call wait for an approval, or not any more."""
    from django.utils import timezone

    from mcphub.features.approvals.models import McpApproval

    now = timezone.now()
    words = {"tool_name": "shop.buy", "tool_version": "1", "arguments": {}, "binding": "x", "created_at": now}
    McpApproval.objects.update_or_create(
        id=id_,
        defaults={"caller_label": "agent", "expires_at": now + timedelta(hours=1 if waits else -1)},
        create_defaults={**words, "caller_label": "agent", "expires_at": now + timedelta(hours=1)},
    )


def note(kind: str, subject: str, **facts: Any) -> int | None:
    from mcphub.features.notifications import noticing

    made = noticing.note(kind, subject, facts)
    return made.pk if made is not None else None


def notices(**filters: Any) -> list[dict[str, Any]]:
    from mcphub.features.notifications.models import Notice

    rows = Notice.objects.filter(**filters).order_by("pk")
    return [
        {"kind": row.kind, "subject": row.subject, "count": row.count, "is_open": row.ended_at is None} for row in rows
    ]


def deliveries(**filters: Any) -> list[dict[str, Any]]:
    from mcphub.features.notifications.models import Delivery

    return list(Delivery.objects.filter(**filters).order_by("pk").values("pk", "state", "tries", "error"))


def hurry(**filters: Any) -> int:
    """Let what waits for its next try be due now, and leases of dead workers be over."""
    from django.utils import timezone

    from mcphub.features.notifications.models import Delivery, Subscription

    past = timezone.now() - timedelta(seconds=1)
    Subscription.objects.exclude(leased_until=None).update(leased_until=past)
    return Delivery.objects.filter(state="waiting", **filters).update(due_at=past)


def leased() -> int:
    from mcphub.features.notifications.models import Subscription

    return Subscription.objects.exclude(leased_by="").count()


def replay() -> int:
    from mcphub.features.notifications import noticing
    from mcphub.features.notifications.models import Delivery

    return noticing.replay(Delivery.objects.filter(state="dead"))
