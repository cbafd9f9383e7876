"""Upstream offers against approvals: listings become proposals, approvals become rows of the catalogue.

A definition is served only as somebody approved it, or as the connection's policy lets it through. An operator's edit
of its row is an override: it is detected by comparing the row with the approved original, stays when the original
changes, and is stored nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
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
from sessions_app.kit.database import in_slices
from sessions_app.protocol.json import Json
from tools_catalog.discovery import proposals
from tools_catalog.discovery.proposals import columns, public_name, refusal_of
from tools_catalog.models import McpConnection, McpUpstreamTool, PersonalList, ShownOffers, UpstreamAccount, reach
from tools_catalog.models.accounts import SHARED
from tools_catalog.models.offer_kinds import handler_of
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
"""The maximum that a connection's policy accepts unseen: a full list. An upstream may invent names for ever."""


_AT_ONCE = 10
"""Offers stored in one transaction: each takes some 20 ms."""


class ApprovalRefused(Exception):
    """A definition cannot be made available; the sentence has the reason and the next step."""


def reconcile(connection_id: int, offers: Offers, *, goes_on: Callable[[], bool] = lambda: True) -> None:
    """Compare a listing with the connection's known state, store it, and accept the part that its policy allows. Of a
    kind that was not listed nothing changes.

    May be called by several processes at once with the same listing: the second finds nothing to do. Where it ends
    midway, or `goes_on` says no, the rest is left to the next listing.
    """
    with transaction.atomic():
        connection = McpConnection.objects.select_for_update().filter(pk=connection_id).first()
        if connection is None:
            return
        if connection.lists_differ:
            PersonalList.objects.note(connection, SHARED, _digests(offers))
    for kind, listed in offers.items():
        shown = _shown(connection, kind) if connection.lists_differ else {}
        _store(connection, kind, listed, goes_on, still_shown={*listed, *shown})
    if connection.discovered_at is None and goes_on():
        # Not save(): the moment is no change of the connection.
        McpConnection.objects.filter(pk=connection.pk).update(discovered_at=timezone.now())


def reconcile_for(
    connection_id: int, principal: str, offers: Offers, *, goes_on: Callable[[], bool] = lambda: True
) -> None:
    """Store a listing made with a person's account: visibility, and new definitions.

    There is one definition of each name. If people see different ones, the one seen by the shared account, or first,
    is offered for decision; people who see another do not see the tool.
    """
    with transaction.atomic():
        connection = McpConnection.objects.select_for_update().filter(pk=connection_id).first()
        account = UpstreamAccount.objects.filter(connection=connection_id, principal=principal, state="connected")
        if connection is None or not connection.lists_differ or not account.exists():
            return
        if PersonalList.objects.note(connection, principal, _digests(offers)):
            bus.publish(bus.TOOLS_CHANGED)
    for kind, listed in offers.items():
        if kind not in proposals.FIELDS:
            continue  # what a feature copies is offered as the account for lists is shown it
        shown = _shown(connection, kind)
        _store(connection, kind, listed, goes_on, still_shown=shown.keys(), digests=shown)


def _store(
    connection: McpConnection,
    kind: str,
    listed: Mapping[str, Listed],
    goes_on: Callable[[], bool],
    *,
    still_shown: Collection[str],
    digests: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Store a listing of one kind. What is not `still_shown` to anybody is gone; a definition among `digests` of its
    name stays as it is, since somebody is shown it.

    Only what differs is written, in short transactions: on SQLite all calls wait for their end.
    """

    def is_due(row: McpUpstreamTool | None, one: Listed) -> bool:
        return row is None or (not _is_shown(row, digests) and _differs(connection, row, one))

    known = _known(connection, kind)
    gone = [row for name, row in known.items() if name not in still_shown]
    for some in in_slices([row.upstream_name for row in gone if not row.is_gone], _AT_ONCE):
        if not goes_on():
            return
        with transaction.atomic():
            for lost in _known(connection, kind, some).values():
                _lose(lost)
    due = [one for name, one in listed.items() if is_due(known.get(name), one)]
    for part in in_slices(due, _AT_ONCE):
        if not goes_on():
            return
        with transaction.atomic():
            now = _known(connection, kind, [one.name for one in part])
            room = _room(connection, kind)
            for one in part:
                row = now.get(one.name)
                if is_due(row, one):
                    room -= _take(connection, row or _new(connection, kind, one, gone), one, has_room=room > 0)


def _known(connection: McpConnection, kind: str, names: Collection[str] | None = None) -> dict[str, McpUpstreamTool]:
    """Return the rows of a kind by name. With `names` only those, and no other process stores a listing until the
    transaction ends.
    """
    if names is not None:
        McpConnection.objects.select_for_update().get(pk=connection.pk)
    rows = connection.tools.filter(kind=kind).select_related("tool", "resource", "prompt")
    return {row.upstream_name: row for row in (rows if names is None else rows.filter(upstream_name__in=names))}


def _is_shown(row: McpUpstreamTool, digests: Mapping[str, Collection[str]] | None) -> bool:
    return digests is not None and not row.is_gone and row.seen_digest in digests.get(row.upstream_name, ())


def _differs(connection: McpConnection, row: McpUpstreamTool, one: Listed) -> bool:
    return row.seen_digest != one.digest or row.is_gone or _passes(connection, row)


def approve(
    row: McpUpstreamTool, *, author: User | AnonymousUser | str | None, reason: str = "", looked_at: str = ""
) -> Any:
    """Accept the upstream's current definition; return the row of the catalogue. An operator's edits of that row are
    kept. `looked_at` is the digest of the definition that somebody read, where that is known: another is refused.

    Approval is a permission of its own, so the upstream's hints about effects need no second person.

    Raises ApprovalRefused, also where its tool would leave the reach of a policy in force: that takes a superuser.
    """
    is_bound = author == _BY_POLICY or guarding.needs_second_person()
    with transaction.atomic(), guarding.decided():
        row = McpUpstreamTool.objects.select_for_update(of=("self",)).select_related("connection").get(pk=row.pk)
        if row.is_gone:
            raise ApprovalRefused(_t("The upstream no longer offers it."))
        if looked_at and looked_at != row.seen_digest:
            raise ApprovalRefused(_t("The upstream changed it while you were reading. Review the difference again."))
        if refusal := refusal_of(row):
            raise ApprovalRefused(refusal)
        before = columns(row, row.approved) if row.approved_digest else {}
        former_name = row.renamed_from
        if (further := handler_of(row.kind)) is not None:
            _note_approval(row, author)
            try:
                return further.serve(row, author=author, reason=reason)
            except ValidationError as error:
                raise ApprovalRefused(_words(error)) from error
        field = proposals.FIELDS[row.kind]
        is_new = row.served is None
        served = proposals.begun(row) if is_new else row.served
        for column, value in columns(row, row.seen).items():
            if is_new or proposals.is_theirs(column, getattr(served, column), before.get(column)):
                setattr(served, column, value)
        if row.kind == TOOL:
            _configure(served, row)
        _note_approval(row, author)
        setattr(row, field, served)  # it is asked for its offer before it can be saved
        served.change_author, served.change_reason = author, reason
        if is_bound and row.kind == TOOL and (evaded := _evaded(served, row, former_name)):
            raise ApprovalRefused(
                _t("Its tool would leave the reach of: %(named)s. Change these first, or have a superuser approve it.")
                % {"named": ", ".join(evaded)}
            )
        try:
            served.full_clean()
        except ValidationError as error:
            raise ApprovalRefused(_words(error)) from error
        served.save()
        if is_new:
            served.groups.set(row.connection.groups.all())
            row.save(update_fields=[field])
        return served


def _note_approval(row: McpUpstreamTool, author: User | AnonymousUser | str | None) -> None:
    row.approved, row.approved_digest = row.seen, row.seen_digest
    row.approved_schema_digest = row.seen_schema_digest
    row.rejected_digest = row.refusal = row.renamed_from = ""
    row.decided_by, row.decided_at = str(author)[:150], timezone.now()
    row.save()


def _words(error: ValidationError) -> str:
    return " ".join(f"{name}: {' '.join(texts)}" for name, texts in error.message_dict.items())


def _evaded(served: McpToolDefinition, row: McpUpstreamTool, former_name: str) -> list[str]:
    """Return the policies that the tool would evade, or evades under the name that the upstream gave it anew."""
    policies = reach.Reach()
    if not policies:
        return []
    stored = type(served).objects.filter(pk=served.pk).first()
    if stored is None and former_name:
        known = row.connection.tools.filter(kind=TOOL, upstream_name=former_name).select_related("tool").first()
        stored = known.tool if known is not None else None
    return sorted(set(policies.losses(stored, served)))


def reject(row: McpUpstreamTool, *, author: User | AnonymousUser | str | None) -> None:
    """Refuse this definition; the next change is shown again. Earlier approvals stay as they are."""
    row.rejected_digest = row.seen_digest
    row.decided_by, row.decided_at = str(author)[:150], timezone.now()
    row.save(update_fields=["rejected_digest", "decided_by", "decided_at"])


def overrides(row: McpUpstreamTool) -> dict[str, tuple[object, object]]:
    """Return an operator's edits: column -> (the upstream's value, ours)."""
    served = row.served
    if served is None or not row.approved_digest:
        return {}
    original = columns(row, row.approved)
    return {
        column: (value, getattr(served, column))
        for column, value in original.items()
        if not proposals.is_theirs(column, getattr(served, column), value)
    }


def _digests(offers: Offers) -> dict[str, Json]:
    return {
        kind: {name: [one.digest, one.schema_digest] for name, one in listed.items()} for kind, listed in offers.items()
    }


def _shown(connection: McpConnection, kind: str) -> dict[str, set[str]]:
    """Return the definitions of a kind seen by any account: name -> their digests."""
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
        _refuse(row, _t("The upstream listed too many new names within a day. Approve this one to make it available."))
        return False
    if _is_restless(row):
        _refuse(
            row,
            _t("The definition changed too often within an hour. Approve the current one, or wait for a later change."),
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
    """Return how many new names of a kind the policy may still serve today. Changes accepted today count as well."""
    since = timezone.now() - timedelta(days=1)
    lately = connection.tools.filter(kind=kind, decided_by=_BY_POLICY, decided_at__gt=since)
    return _MOST_NEW_A_DAY - lately.count()


def _lose(row: McpUpstreamTool) -> None:
    """Store that it is no longer offered; delete proposals without a decision."""
    if row.is_gone:
        return
    if row.decided_at is None:
        # Without the signals of delete(), which would begin a history.
        McpUpstreamTool.objects.filter(pk=row.pk)._raw_delete(row._state.db)
        return
    row.is_gone = True
    _note(row, "is_gone")


def _note(row: McpUpstreamTool, *fields: str) -> None:
    """Save the observation. It is part of the history from the first decision on, and while it does not flood it."""
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
