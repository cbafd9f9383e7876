"""The rules by which a caller receives events, and the facts of each.

A caller with the scope `audit:read` receives the notices that it can read over REST: a key all of them, a person those
of their permissions, a caller in a workspace those of the workspace. Other callers receive events about themselves, or
about a connection with tools that they see, with the facts that the kind shares. Events of upstreams are for callers
that see a tool of the upstream, whatever their scopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from django.contrib.auth import get_user_model

from mcphub.features.events.errors import LOST, EventError, EventForbidden, EventMissing
from mcphub.features.events.models import Occurrence, UpstreamEvent
from mcphub.features.notifications.catalogue import KINDS
from mcphub.parts import NoticeKind
from sessions_app.caller import ANONYMOUS, Caller
from sessions_app.protocol.json import Json
from tools_catalog.catalog.selection import Selection

READ = "audit:read"
_SENT = tuple(kind for kind in KINDS.values() if kind.permission)
"""All kinds but the test, which goes to one subscription of one person."""


@dataclass(frozen=True)
class Receiver:
    """A caller at an address, with its rights of this moment."""

    caller: Caller
    selection: Selection
    in_full: frozenset[str]
    """Names of the events with all facts."""
    relayed: Mapping[str, str]
    """Events of upstreams that are served: by their name the connection."""

    @classmethod
    def of(cls, caller: Caller, selection: Selection) -> Receiver:
        """Return the caller with its rights. Asks the database."""
        relayed = dict(UpstreamEvent.objects.served().values_list("name", "connection__slug"))
        return cls(caller, selection, _readable(caller), relayed)

    def names(self) -> Iterator[NoticeKind]:
        """Return the hub's own events that it may get."""
        return (kind for kind in _SENT if self.may_get(kind.name))

    def relayed_names(self) -> list[str]:
        """Return the events of upstreams that it may get."""
        return sorted(name for name in self.relayed if self.may_get(name))

    def knows(self, name: str) -> bool:
        return name in self.relayed or (name in KINDS and bool(KINDS[name].permission))

    def may_get(self, name: str) -> bool:
        if name in self.relayed:
            return self.relayed[name] in self._connections
        kind = KINDS.get(name)
        return kind is not None and (name in self.in_full or bool(kind.shared))

    def facts_of(self, occurrence: Occurrence) -> dict[str, Json] | None:
        """Return the caller's facts of an event; None for an event that the caller does not receive."""
        here, facts = self.caller.workspace_slug, occurrence.facts
        if here is not None and occurrence.workspace not in ("", here):
            return None
        if occurrence.id_there:
            return dict(facts) if self.may_get(occurrence.name) else None
        if occurrence.name in self.in_full and here in (None, occurrence.workspace):
            return dict(facts)
        shared = KINDS[occurrence.name].shared if occurrence.name in KINDS else ()
        if not shared or not (self.is_own(occurrence) or occurrence.connection in self._connections):
            return None
        return {name: facts[name] for name in shared if name in facts}

    def is_own(self, occurrence: Occurrence) -> bool:
        return occurrence.principal == self.caller.principal != ANONYMOUS.principal

    @cached_property
    def _connections(self) -> frozenset[str]:
        """The upstreams with tools that it sees."""
        tools = self.selection.tools.values()
        return frozenset(tool.connection for tool in tools if tool.connection and tool.visible_to(self.caller))


def ending_of(receiver: Receiver | None, name: str) -> EventError | None:
    """Return why a subscription to an event is over; None while it is not."""
    if receiver is not None and not receiver.knows(name):
        return EventMissing(f"The hub has no event {name} any more.", kind="event")
    if receiver is None or not receiver.may_get(name):
        return EventForbidden(LOST, reason="access revoked")
    return None


def _readable(caller: Caller) -> frozenset[str]:
    if READ not in caller.scopes:
        return frozenset()
    is_person, number = caller.principal.startswith("user:"), caller.principal.removeprefix("user:")
    if not is_person or (caller.workspace is not None and caller.key_id is not None):
        # A workspace's key has the scope by its person's role there; see sessions_app.models.keys.may_hold.
        return frozenset(kind.name for kind in _SENT)
    person = get_user_model()._default_manager.filter(pk=number, is_active=True).first()
    return frozenset(kind.name for kind in _SENT if person is not None and person.has_perm(kind.permission))
