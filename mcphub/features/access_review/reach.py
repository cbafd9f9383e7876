"""The rows of a review: one for each grant at the moment of its start.

Callers see the tools that the hub itself would show them (`Tool.visible_to`). Tools are counted per grant, and named
up to `MOST_NAMED`, so that many keys and many tools make no product of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _t
from oauth2_provider.models import AccessToken

from invocations.models import McpToolInvocation
from mcphub.features.access_review.models import UNUSED_DAYS, AccessReview, ReviewedGrant
from mcphub.features.signin.models import Consent
from mcphub.features.signin.my_clients import BY_CLIENT
from mcphub.process import runtime
from sessions_app.caller import Caller, caller_of_key, person_of
from sessions_app.models import ApiKey
from sessions_app.protocol.json import Json
from sessions_app.workspaces.models import read_workspaces
from sessions_app.workspaces.scope import whole_hub
from tools_catalog.catalog.selection import Tool
from tools_catalog.catalog.snapshot import Catalog

MOST_ROWS: Final = 20_000
MOST_NAMED: Final = 50
_MOST_THROUGH: Final = 20
_AT_ONCE: Final = 400
"""Principals of one query."""


def rows_of(review: AccessReview) -> list[ReviewedGrant]:
    """Return the grants that a review covers, unsaved. Raises ValidationError where there are none, or too many."""
    with whole_hub():  # what is shown of it, the review's own workspace narrows
        found = _Reading(review).rows()
    if not found:
        raise ValidationError(_t("Nobody has access of this kind: there is nothing to review."))
    return found


class _Reading:
    """Reads the grants of one review."""

    def __init__(self, review: AccessReview) -> None:
        self.review = review
        self.before = timezone.now() - timedelta(days=UNUSED_DAYS)
        self.workspaces = read_workspaces()
        hub = runtime.current()
        self.catalog = Catalog.load() if hub is None else hub.configuration.catalog
        self.tools = [tool for tool in self.catalog.tools.values() if self._is_of_review(tool)]
        self.plain = [tool for tool in self.tools if not tool.hiding and tool.sight is None]
        self.personal = [tool for tool in self.tools if tool.hiding or tool.sight is not None]
        self._seen: dict[object, frozenset[str]] = {}
        self._by: dict[int, dict[str, Json]] = {}
        if review.patterns and not self.tools:
            raise ValidationError({"tools": _t("No tool has such a name. `mcphub tool list` lists the names.")})

    def _is_of_review(self, tool: Tool) -> bool:
        workspace = self.review.workspace_id
        is_here = workspace is None or tool.owner in (None, workspace)
        return tool.enabled and is_here and self.review.covers_tool(tool.name)

    def rows(self) -> list[ReviewedGrant]:
        made: list[ReviewedGrant] = []
        for row in self._all():
            if self.review.patterns and not row.tool_count:
                continue
            made.append(row)
            if len(made) > MOST_ROWS:
                words = _t("More than %(most)d grants: narrow the review to a workspace, a group or tools.")
                raise ValidationError(words % {"most": MOST_ROWS})
        return made

    def _all(self) -> Iterator[ReviewedGrant]:
        is_of_all = self.review.workspace_id is None and self.review.group_id is None
        for people in _pieces(self._people().prefetch_related("groups")):
            used = _Used([person.pk for person in people], self.before)
            for person in people:
                yield from self._of_person(person, used)
        for keys in _pieces(self._keys().select_related("owner").prefetch_related("groups")):
            yield from map(self._of_key, keys)
        if is_of_all:
            consents = Consent.objects.filter(user__is_active=True).select_related("user", "client")
            for some in _pieces(consents.prefetch_related("user__groups")):
                used = _Used([consent.user_id for consent in some], self.before)
                for consent in some:
                    yield self._of_app(consent, used)

    # Which ones -----------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> frozenset[int] | None:
        """The groups under review; None: all."""
        found = None
        if self.review.workspace_id is not None:
            found = self.workspaces[self.review.workspace_id].groups
        if self.review.group_id is not None:
            own = frozenset({self.review.group_id})
            found = own if found is None else found & own
        return found

    def _people(self) -> Any:
        people = User.objects.filter(is_active=True)
        return people if self._groups is None else people.filter(groups__in=self._groups).distinct()

    def _keys(self) -> Any:
        keys = ApiKey.objects.usable()
        if self.review.workspace_id is not None:
            keys = keys.filter(workspace=self.review.workspace_id)
        if self.review.group_id is not None:
            keys = keys.filter(pk__in=ApiKey.groups.through.objects.filter(group=self.review.group_id).values("apikey"))
        return keys

    # One row each ---------------------------------------------------------------------------------------

    def _of_person(self, person: User, used: _Used) -> Iterator[ReviewedGrant]:
        caller = person_of(person)
        if self._groups is None:
            alone = replace(caller, groups=frozenset())
            last = max(filter(None, [used.last(person.pk), person.last_login]), default=None)
            through: dict[str, Json] = {"superuser": True} if person.is_superuser else {}
            row = self._row(ReviewedGrant.Kind.ACCOUNT, person.pk, _t("account"), self._visible(alone))
            yield self._about(row, person, last, person.date_joined, through | self._open_at(alone))
        for group in person.groups.all():
            if self._groups is not None and group.pk not in self._groups:
                continue
            names = frozenset(name for name in self._visible(caller) if self._is_through(name, group.pk))
            last = used.last_of(person.pk, names)
            if not names and self.review.workspace_id is None:  # it opens the console, or nothing now
                last = used.last(person.pk)
            row = self._row(ReviewedGrant.Kind.MEMBERSHIP, group.pk, group.name, names)
            yield self._about(row, person, last, person.date_joined, self._by_group(group))

    def _of_key(self, key: ApiKey) -> ReviewedGrant:
        caller = caller_of_key(key, None, self.workspaces)
        names = self._visible(caller) if "tools:call" in caller.scopes else frozenset[str]()
        through: dict[str, Json] = {"scopes": sorted(caller.scopes), **self._open_at(caller)}
        if own := sorted(group.name for group in key.groups.all())[:_MOST_THROUGH]:
            through["groups"] = list(own)
        if caller.workspace_slug:
            through["workspaces"] = [caller.workspace_slug]
        if key.service:
            through["service_account"] = key.service
        row = self._row(ReviewedGrant.Kind.KEY, key.pk, str(key), names)
        self._about(row, key.owner, key.last_used_at, key.created_at, through)
        row.principal = key.principal
        row.label = key.owner.get_username() if key.owner is not None else key.name
        return row

    def _of_app(self, consent: Consent, used: _Used) -> ReviewedGrant:
        scopes = sorted(consent.scopes.split())
        names = self._visible(person_of(consent.user)) if "tools:call" in scopes else frozenset[str]()
        grant = f"{consent.client.name or '-'} · {consent.endpoint}"
        row = self._row(ReviewedGrant.Kind.APP, consent.pk, grant, names)
        last = used.last_by_client(consent.user_id, consent.client_id)
        return self._about(row, consent.user, last, consent.given_at, {"scopes": list(scopes)})

    def _row(self, kind: ReviewedGrant.Kind, subject: int, grant: str, names: frozenset[str]) -> ReviewedGrant:
        first: list[Json] = sorted(names)[:MOST_NAMED]
        return ReviewedGrant(
            kind=kind, subject=str(subject), grant=grant[:200], tool_count=len(names), tool_names=first
        )

    def _about(
        self, row: ReviewedGrant, person: Any, last: datetime | None, since: datetime, through: dict[str, Json]
    ) -> ReviewedGrant:
        if person is not None:
            row.principal, row.label = f"user:{person.pk}", person.get_username()[:200]
        row.through, row.last_used_at = through, last
        row.is_unused = (last or since) < self.before
        return row

    # What it opens --------------------------------------------------------------------------------------

    def _visible(self, caller: Caller) -> frozenset[str]:
        """Return the names of the tools that the hub shows to a caller; of most tools once for all in equal groups."""
        audience = (caller.groups, caller.workspace, caller.sees_everything)
        if audience not in self._seen:
            self._seen[audience] = frozenset(tool.name for tool in self.plain if tool.visible_to(caller))
        own = frozenset(tool.name for tool in self.personal if tool.visible_to(caller))
        return self._seen[audience] | own if own else self._seen[audience]

    def _is_through(self, name: str, group: int) -> bool:
        tool = self.catalog.tools[name]
        return group in tool.groups or (tool.workspace is not None and group in tool.workspace.groups)

    def _by_group(self, group: Group) -> dict[str, Json]:
        """Return by what a group opens tools: its toolsets and workspaces; and its number of console permissions."""
        if group.pk not in self._by:
            here = self.review.workspace_id
            workspaces = [each for each in self.workspaces.values() if here in (None, each.key)]
            slugs = sorted(each.slug for each in workspaces if group.pk in each.groups)[:_MOST_THROUGH]
            toolsets = sorted(
                each.slug
                for each in self.catalog.toolsets.values()
                if group.pk in each.groups and (here is None or each.workspace is None or each.workspace.key == here)
            )[:_MOST_THROUGH]
            rights = group.permissions.count() if here is None else 0
            found: dict[str, Json] = {"toolsets": list(toolsets), "workspaces": list(slugs), "permissions": rights}
            self._by[group.pk] = {name: value for name, value in found.items() if value}
        return self._by[group.pk]

    def _open_at(self, caller: Caller) -> dict[str, Json]:
        """Return the toolsets whose addresses are open to a caller although they are reserved."""
        here = self.review.workspace_id
        found = sorted(
            each.slug
            for each in self.catalog.toolsets.values()
            if each.groups & caller.groups and (here is None or each.workspace is None or each.workspace.key == here)
        )[:_MOST_THROUGH]
        return {"toolsets": list(found)} if found else {}


class _Used:
    """The last calls of some people: of all, and within `UNUSED_DAYS` by tool and by app."""

    def __init__(self, people: list[int], since: datetime) -> None:
        self._people = people
        calls = McpToolInvocation.objects.filter(
            principal__in=[f"user:{pk}" for pk in set(people)], started_at__gte=since
        )
        self._by_tool: dict[tuple[str, str], datetime] = {}
        self._by_client: dict[tuple[str, int], datetime] = {}
        found = (
            calls.order_by().values_list("principal", "tool_name", "allowed_client").annotate(last=Max("started_at"))
        )
        for principal, tool, client, last in found.iterator():
            _newer(self._by_tool, (principal, tool), last)
            if by := BY_CLIENT.search(client or ""):
                _newer(self._by_client, (principal, int(by[1])), last)
        tokens = AccessToken.objects.filter(user__in=set(people)).values_list("user", "application")
        for user, client, last in tokens.annotate(last=Max("created")):
            _newer(self._by_client, (f"user:{user}", client), last)

    def last(self, person: int) -> datetime | None:
        calls = McpToolInvocation.objects.filter(principal=f"user:{person}").order_by("-id")
        found: datetime | None = calls.values_list("started_at", flat=True).first()
        return found

    def last_of(self, person: int, names: Iterable[str]) -> datetime | None:
        keys = ((f"user:{person}", name) for name in names)
        return max((self._by_tool[key] for key in keys if key in self._by_tool), default=None)

    def last_by_client(self, person: int, client: int) -> datetime | None:
        return self._by_client.get((f"user:{person}", client))


def _newer(found: dict[Any, datetime], key: object, at: datetime | None) -> None:
    if at is not None:
        found[key] = max(found.get(key, at), at)


def _pieces(rows: Any) -> Iterator[list[Any]]:
    yield from batched(rows.order_by("pk").iterator(_AT_ONCE), _AT_ONCE)


def batched(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    piece: list[Any] = []
    for row in rows:
        piece.append(row)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece
