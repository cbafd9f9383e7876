"""What upstreams offer against what was approved: listings become proposals, approvals become rows of the catalogue.

A definition is served only as somebody approved it, or as the connection's policy lets it through. What an
operator then writes differently at its row is an override: it is told by comparing the row with the approved
original, stays when the original changes, and is stored nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app import bus
from sessions_app.history import guarding
from sessions_app.history.reading import history_of
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.discovery import proposals
from tools_catalog.discovery.proposals import columns, public_name, refusal_of
from tools_catalog.models import McpConnection, McpUpstreamTool, PersonalList, ShownOffers, UpstreamAccount
from tools_catalog.models.accounts import SHARED
from tools_catalog.upstream.listing import MAX_OFFERS, TOOL, Listed, Offers

if TYPE_CHECKING:
    from tools_catalog.models import McpToolDefinition

__all__ = [
    "ApprovalRefused",
    "approve",
    "columns",
    "overrides",
    "public_name",
    "reconcile",
    "reconcile_for",
    "refusal_of",
    "reject",
]

_BY_POLICY = "policy of the connection"

_MOST_STEPS_AN_HOUR = 40
"""Entries in an offer's history; a change that the policy lets through makes two. An upstream that changes with each
request would fill the disk with versions that nobody asked for."""

_MOST_NEW_A_DAY = MAX_OFFERS
"""What a connection's policy serves unseen: all that one list may hold. An upstream may invent names for ever."""


class ApprovalRefused(Exception):
    """A definition cannot be served; the sentence says why and what to do."""


def reconcile(connection_id: int, offers: Offers) -> None:
    """Compare what was listed with what is known of the connection, take it down, and let through what its policy
    lets. Of a kind that was not listed nothing changes.

    May be called by several processes at once with the same listing: the second finds nothing to do.
    """
    with transaction.atomic():
        connection = McpConnection.objects.select_for_update().filter(pk=connection_id).first()
        if connection is None:
            return
        if connection.lists_differ:
            PersonalList.objects.note(connection, SHARED, _digests(offers))
        for kind, listed in offers.items():
            room = _room(connection, kind)
            known = {
                row.upstream_name: row
                for row in connection.tools.filter(kind=kind).select_related("tool", "resource", "prompt")
            }
            shown = _shown(connection, kind) if connection.lists_differ else {}
            gone = [row for name, row in known.items() if name not in listed and name not in shown]
            for row in gone:
                _lose(row)
            for name, one in listed.items():
                room -= _take(connection, known.get(name) or _new(connection, kind, one, gone), one, has_room=room > 0)
        if connection.discovered_at is None:
            # Not save(): the moment is no change of the connection.
            McpConnection.objects.filter(pk=connection.pk).update(discovered_at=timezone.now())


def reconcile_for(connection_id: int, principal: str, offers: Offers) -> None:
    """Take down what was listed with the account of a person: who sees what, and what nobody was shown before.

    There is one definition of each name. Where people are shown different ones, that one stays for decision that the
    account for all is shown, or whoever was shown it first; whom another is shown does not see the tool.
    """
    with transaction.atomic():
        connection = McpConnection.objects.select_for_update().filter(pk=connection_id).first()
        account = UpstreamAccount.objects.filter(connection=connection_id, principal=principal, state="connected")
        if connection is None or not connection.lists_differ or not account.exists():
            return
        is_news = PersonalList.objects.note(connection, principal, _digests(offers))
        for kind, listed in offers.items():
            room, shown = _room(connection, kind), _shown(connection, kind)
            rows = connection.tools.filter(kind=kind).select_related("tool", "resource", "prompt")
            known = {row.upstream_name: row for row in rows}
            gone = [row for name, row in known.items() if name not in shown]
            for row in gone:
                _lose(row)
            for name, one in listed.items():
                row = known.get(name) or _new(connection, kind, one, gone)
                if row.pk is not None and not row.is_gone and row.seen_digest in shown[name]:
                    continue  # somebody is shown what stands there
                room -= _take(connection, row, one, has_room=room > 0)
        if is_news:
            bus.publish(bus.TOOLS_CHANGED)


def approve(
    row: McpUpstreamTool, *, author: User | AnonymousUser | str | None, reason: str = "", looked_at: str = ""
) -> Any:
    """Serve what the upstream offers now; give the row of the catalogue. What an operator wrote differently there
    is kept. `looked_at` is the digest of the definition that somebody read, where that is known: another is refused.

    The right to approve is one of its own, so what the upstream says of a tool's effects needs no second person.

    Raises ApprovalRefused.
    """
    with transaction.atomic(), guarding.decided():
        row = McpUpstreamTool.objects.select_for_update(of=("self",)).select_related("connection").get(pk=row.pk)
        if row.is_gone:
            raise ApprovalRefused(_t("The upstream no longer offers it."))
        if looked_at and looked_at != row.seen_digest:
            raise ApprovalRefused(_t("The upstream changed it while you were reading. Look at the difference again."))
        if refusal := refusal_of(row):
            raise ApprovalRefused(refusal)
        before = columns(row, row.approved) if row.approved_digest else {}
        field = proposals.FIELDS[row.kind]
        is_new = row.served is None
        served = proposals.begun(row) if is_new else row.served
        for column, value in columns(row, row.seen).items():
            if is_new or _same(getattr(served, column), before.get(column)):
                setattr(served, column, value)
        if row.kind == TOOL:
            _configure(served, row)
        row.approved, row.approved_digest = row.seen, row.seen_digest
        row.approved_schema_digest = row.seen_schema_digest
        row.rejected_digest = row.refusal = row.renamed_from = ""
        row.decided_by, row.decided_at = str(author)[:150], timezone.now()
        row.save()
        setattr(row, field, served)  # it is asked for its offer before it can be saved
        served.change_author, served.change_reason = author, reason
        try:
            served.full_clean()
        except ValidationError as error:
            words = [f"{name}: {' '.join(texts)}" for name, texts in error.message_dict.items()]
            raise ApprovalRefused(" ".join(words)) from error
        served.save()
        if is_new:
            served.groups.set(row.connection.groups.all())
            row.save(update_fields=[field])
        return served


def reject(row: McpUpstreamTool, *, author: User | AnonymousUser | str | None) -> None:
    """Refuse this definition; the next change is shown again. What was approved before stays as it is."""
    row.rejected_digest = row.seen_digest
    row.decided_by, row.decided_at = str(author)[:150], timezone.now()
    row.save(update_fields=["rejected_digest", "decided_by", "decided_at"])


def overrides(row: McpUpstreamTool) -> dict[str, tuple[object, object]]:
    """Give what an operator wrote differently: column -> (the upstream's, ours)."""
    served = row.served
    if served is None or not row.approved_digest:
        return {}
    original = columns(row, row.approved)
    return {
        column: (value, getattr(served, column))
        for column, value in original.items()
        if not _same(value, getattr(served, column))
    }


def _digests(offers: Offers) -> dict[str, Json]:
    return {
        kind: {name: [one.digest, one.schema_digest] for name, one in listed.items()} for kind, listed in offers.items()
    }


def _shown(connection: McpConnection, kind: str) -> dict[str, set[str]]:
    """Give what any account is shown of a kind: name -> the digests of its definitions."""
    found: dict[str, set[str]] = {}
    for content in ShownOffers.objects.filter(connection=connection).values_list("content", flat=True):
        for name, (digest, _schema) in content.get(kind, {}).items():
            found.setdefault(name, set()).add(digest)
    return found


def _take(connection: McpConnection, row: McpUpstreamTool, one: Listed, *, has_room: bool) -> bool:
    """Take down one definition as it is now, and serve it where the policy does. Give whether that let in a new one."""
    if row.pk is None or row.seen_digest != one.digest or row.is_gone:
        row.see(one)
        row.refusal = (one.refusal or refusal_of(row))[:1000]
        _note(row)
    if not _passes(connection, row):
        return False
    is_new = not row.approved_digest
    if is_new and not has_room:
        _refuse(row, _t("The upstream listed too many new names within a day. Approve this one to serve it."))
        return False
    if _is_restless(row):
        _refuse(
            row,
            _t("The definition changed too often within an hour. Approve the present one, or wait for a later change."),
        )
        return False
    try:
        approve(row, author=_BY_POLICY, reason=_t("The connection's policy"))
    except ApprovalRefused as error:
        _refuse(row, str(error))
        return False
    return is_new


def _refuse(row: McpUpstreamTool, words: str) -> None:
    McpUpstreamTool.objects.filter(pk=row.pk).update(refusal=words[:1000])


def _room(connection: McpConnection, kind: str) -> int:
    """Give how many new names of a kind the policy may still serve today. What it let change today counts as well."""
    since = timezone.now() - timedelta(days=1)
    lately = connection.tools.filter(kind=kind, decided_by=_BY_POLICY, decided_at__gt=since)
    return _MOST_NEW_A_DAY - lately.count()


def _lose(row: McpUpstreamTool) -> None:
    """Take down that it is offered no more; forget what nobody ever decided about."""
    if row.is_gone:
        return
    if row.decided_at is None:
        # Without the signals of delete(), which would begin a history.
        McpUpstreamTool.objects.filter(pk=row.pk)._raw_delete(row._state.db)
        return
    row.is_gone = True
    _note(row, "is_gone")


def _note(row: McpUpstreamTool, *fields: str) -> None:
    """Save what was seen. It is part of the history from the first decision on, and while it does not flood it."""
    save = row.save_unrecorded if row.decided_at is None or _is_restless(row) else row.save
    save(update_fields=fields or None)


def _is_restless(row: McpUpstreamTool) -> bool:
    since = timezone.now() - timedelta(hours=1)
    return history_of(row).filter(happened_at__gt=since).count() >= _MOST_STEPS_AN_HOUR


def _configure(tool: McpToolDefinition, row: McpUpstreamTool) -> None:
    if tool.read_only:
        tool.destructive = False  # an operator's mark outweighs the upstream's hint
    tool.configuration = {
        "connection": row.connection.slug,
        "tool": row.upstream_name,
        "digest": row.seen_digest,
        "schema_digest": row.seen_schema_digest,
        "read_only_hint": proposals.hints(row.seen).get("readOnlyHint") is True,
        "begins_task": proposals.begins_task(row.seen),
    }


def _new(connection: McpConnection, kind: str, one: Listed, gone: Iterable[McpUpstreamTool]) -> McpUpstreamTool:
    row = McpUpstreamTool(
        connection=connection, kind=kind, upstream_name=one.name, name=public_name(connection, one.name, kind)[:1000]
    )
    unnamed = _without_name(one.definition)
    for former in gone:
        if former.approved_digest and unnamed == _without_name(former.approved):
            row.renamed_from = former.upstream_name
    return row


def _without_name(definition: dict[str, Json]) -> dict[str, Json]:
    names = {"uri", "uriTemplate"} if "uri" in definition or "uriTemplate" in definition else {"name"}
    return {member: value for member, value in definition.items() if member not in names}


def _passes(connection: McpConnection, row: McpUpstreamTool) -> bool:
    if row.approved_digest == row.seen_digest or row.rejected_digest == row.seen_digest or row.refusal:
        return False
    if connection.policy == McpConnection.Policy.TRUST:
        return True
    # Under another name it is a change of what was there, not something new.
    is_new = not row.approved_digest and not row.renamed_from
    return connection.policy == McpConnection.Policy.HOLD_CHANGES and is_new


def _same(one: object, other: object) -> bool:
    return json.canonical(one) == json.canonical(other) if one is not None and other is not None else one is other
