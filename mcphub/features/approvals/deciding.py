"""Approve, edit or deny a call that waits: the one way for the console, REST, the command line, chat and clients."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from invocations.redaction import records
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking
from mcphub.features.approvals.models import McpApproval
from sessions_app import accountable, bus
from sessions_app.accountable import Party
from sessions_app.history import events
from sessions_app.protocol import json, schemas
from sessions_app.protocol.json import Json
from tools_catalog import secrets
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import McpToolDefinition

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

Why = Literal["own", "group", "twice", "expired", "decided", "arguments", "unread", "task", "changed"]
GRANT = datetime.timedelta(hours=1)
GRANTS = ("", "hour", "session")
LONGEST_REASON = 2000


class DecisionRefused(ValueError):
    """The decision was not taken. `why` for programs, the sentence for people."""

    def __init__(self, why: Why, sentence: str) -> None:
        super().__init__(sentence)
        self.why = why


@dataclass(frozen=True, slots=True)
class Decider:
    """A person or credential that decides."""

    principal: str
    label: str
    credential: str = ""
    """Of a program: its key."""
    groups: Collection[str] = ()
    is_caller: bool = False
    """The calling person, asked by their own client."""
    is_superuser: bool = False
    """Whoever may change everything alone: one yes is enough where nobody is known to answer for the caller."""

    @property
    def party(self) -> Party:
        return Party(self.principal, self.credential)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    approve: bool
    reason: str = ""
    arguments: dict[str, Json] | None = None
    """Other arguments than were asked for; None: as they are."""
    grant: str = ""
    """`hour`: this caller's calls of this tool need no yes for an hour; `session`: nor for the rest of a session, an
    hour at most."""


def decider_of(user: User | AnonymousUser) -> Decider:
    """Return a person, or a REST key, as the decider."""
    actor = events.actor_of(user)
    key = getattr(user, "key", None)
    groups = set(user.groups.values_list("name", flat=True)) if isinstance(user, Model) else set()
    credential = key.credential if key is not None else ""
    return Decider(actor.principal, actor.label, credential, groups, is_superuser=user.is_superuser)


def decide(row: McpApproval, decision: Decision, who: Decider, record: RecordRedaction) -> McpApproval:
    """Record a decision, notify the workers, and return the row as it was decided. Raises DecisionRefused.

    The same decision once more is taken for the first, so a click that is sent twice does no harm.
    """
    now = timezone.now()
    if row.status == McpApproval.Status.PENDING and row.expires_at > now:
        _check_right(row, decision, who)
        if decision.approve:
            _check_unchanged(row)
        fresh = _changed(row, decision, who, record, now)
        with transaction.atomic():
            if _open(row, now).filter(given=row.given).update(**fresh):
                _tell(row, decision, who, fresh, record)
                return McpApproval.objects.get(pk=row.pk)  # as it was decided: the call may use it at once
        row = McpApproval.objects.get(pk=row.pk)
    if row.status in (McpApproval.Status.PENDING, McpApproval.Status.EXPIRED):
        if row.expires_at > now:
            raise DecisionRefused("decided", f"Somebody else decided {row.pk} in the same moment. Look at it again.")
        asking.expire(McpApproval.objects.filter(pk=row.pk))
        raise DecisionRefused("expired", f"The approval {row.pk} expired at {row.expires_at:%H:%M:%S} UTC.")
    was_approved = row.status in (McpApproval.Status.APPROVED, McpApproval.Status.USED)
    if was_approved != decision.approve or decision.arguments is not None:
        raise DecisionRefused("decided", f"The approval {row.pk} was decided before: {row.status}.")
    return row


def _open(row: McpApproval, now: datetime.datetime) -> QuerySet[McpApproval]:
    return McpApproval.objects.filter(pk=row.pk, status=McpApproval.Status.PENDING, expires_at__gt=now)


def _check_right(row: McpApproval, decision: Decision, who: Decider) -> None:
    if not decision.approve:
        return  # a no is free to whoever may look at the question
    if row.needs_another and (who.is_caller or accountable.is_one_person(who.party, _asker(row))):
        raise DecisionRefused(
            "own",
            f"Another person must approve the call of {row.tool_name}: whoever asked, or answers for the key or "
            "service that asked, cannot.",
        )
    if row.group and row.group not in who.groups:
        raise DecisionRefused("group", f"Calls of {row.tool_name} are approved by the group {row.group}.")
    if any(accountable.is_one_person(who.party, Party(principal)) for principal, _name in row.approvers):
        raise DecisionRefused("twice", f"The call of {row.tool_name} needs two persons, and you have said yes.")


def _check_unchanged(row: McpApproval) -> None:
    """Refuse a yes to a call that could not be made: it is bound to the tool as it was asked for."""
    if row.tool_digest and row.tool_digest != Catalog.effect_of(row.tool_name):
        raise DecisionRefused(
            "changed",
            f"{row.tool_name} changed since {row.pk} was asked for: its definition, service, connection, account, "
            "secrets or workspace. Deny it; the caller calls again and is asked anew.",
        )


def _asker(row: McpApproval) -> Party:
    return Party(row.principal, row.credential)


def _needed(row: McpApproval, who: Decider) -> int:
    """Return how many people must say yes: two, or one superuser, where whoever asked may be the first of them."""
    if who.is_superuser or not row.needs_another or accountable.behind(_asker(row)).is_known:
        return row.needed
    return max(row.needed, 2)


def _changed(
    row: McpApproval, decision: Decision, who: Decider, record: RecordRedaction, now: datetime.datetime
) -> dict[str, object]:
    """Return the columns that the decision changes."""
    fresh: dict[str, object] = {"decided_by": who.label[:150], "reason": record.words(decision.reason)[:LONGEST_REASON]}
    if not decision.approve:
        over = {"clear": None, "edited_clear": None, "decided_at": now, "expires_at": now + asking.USABLE}
        return {**fresh, **over, "status": McpApproval.Status.DENIED}
    given = [*row.approvers]
    if decision.arguments is not None and not _is_unchanged(row, decision.arguments):
        if row.is_task:
            words = "waits within a task, which is on record with its arguments. Approve it as it is, or deny it."
            raise DecisionRefused("task", f"The call {row.pk} {words}")
        recorded = _checked(row, decision.arguments, record)
        fresh["edited"] = recorded
        fresh["edited_clear"] = records.apart(recorded, decision.arguments, of=f"{McpApproval.of(row.pk)} edited")
        given = []  # whoever said yes before meant other arguments
    given.append([who.principal, who.label])
    needed = _needed(row, who)
    fresh |= {"approvers": given, "given": len(given), "needed": needed}
    if len(given) < needed:
        return fresh
    fresh |= {"status": McpApproval.Status.APPROVED, "decided_at": now, "expires_at": now + asking.USABLE}
    if decision.grant:
        fresh["granted_until"] = now + GRANT
        fresh["granted_session"] = row.session_id if decision.grant == "session" else ""
    return fresh


def _is_unchanged(row: McpApproval, arguments: dict[str, Json]) -> bool:
    try:
        return json.canonical(row.approved_arguments()) == json.canonical(arguments)
    except secrets.SecretError as error:
        raise DecisionRefused("unread", f"The arguments of {row.pk} cannot be read any more. Deny it.") from error


def _checked(row: McpApproval, arguments: dict[str, Json], record: RecordRedaction) -> Json:
    """Return edited arguments as they are recorded. Raises DecisionRefused."""
    tool = McpToolDefinition.objects.filter(name=row.tool_name).first()
    if tool is None:
        raise DecisionRefused("arguments", f"The tool {row.tool_name} is gone.")
    validator = schemas.compile(tool.input_schema)
    if not validator.is_valid(arguments):
        raise DecisionRefused("arguments", f"The edited arguments do not fit: {validator.explain(arguments).sentence}")
    return record.arguments(tool.name, {"inputSchema": tool.input_schema}, arguments)


def _tell(
    row: McpApproval, decision: Decision, who: Decider, fresh: dict[str, object], record: RecordRedaction
) -> None:
    status = fresh.get("status", row.status)
    kind = {"approved": "call.approved", "denied": "call.denied", "pending": "call.approved_once"}[str(status)]
    events.record(
        kind,
        actor=events.Actor(who.principal, who.label),
        subject=row.pk,
        label=row.tool_name,
        before={"arguments": row.arguments} if "edited" in fresh else None,
        after={
            "principal": row.principal,
            "tool_version": row.tool_version,
            "rule": row.rule,
            "rule_version": row.rule_version,
            **({"turn_id": row.turn_id, "tool_call_id": row.call_id} if row.turn_id else {}),
            **({"edited": fresh["edited"]} if "edited" in fresh else {}),
            **({"grant": decision.grant} if decision.grant and "granted_until" in fresh else {}),
        },
        reason=record.words(decision.reason),
    )
    bus.publish(asking.CHANGED, row.pk)


def difference(row: McpApproval) -> tuple[Json, McpApproval | None]:
    """Return {path: [before, now]} between the last approved call of this tool by this caller and this one, and that
    call; both as they are recorded."""
    rows = McpApproval.objects.filter(tool_name=row.tool_name, principal=row.principal, created_at__lt=row.created_at)
    last = rows.filter(status__in=["approved", "used"]).order_by("-decided_at").first()
    if last is None:
        return {}, None
    return _differences(last.edited if last.edited is not None else last.arguments, row.arguments), last


def _differences(before: Json, now: Json) -> dict[str, Json]:
    if not isinstance(before, dict) or not isinstance(now, dict):
        return {} if before == now else {"": [before, now]}
    names = [*now, *(name for name in before if name not in now)]
    return {name: [before.get(name), now.get(name)] for name in names if before.get(name) != now.get(name)}
