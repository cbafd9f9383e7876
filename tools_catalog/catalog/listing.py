"""A list of the catalogue as its callers see it: pages that are bytes, made once, and signed cursors between them.

A cursor names the last entry of a page, so that entries which come or go meanwhile neither repeat nor hide
others. It is bound to the list, the protocol revision and the audience that it was given to.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from django.conf import settings
from django.utils.crypto import salted_hmac

from sessions_app.protocol import json, revisions
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace

if TYPE_CHECKING:
    from tools_catalog.catalog.selection import Tool
    from tools_catalog.upstream.sights import Sight

logger = logging.getLogger(__name__)

_MAC_BYTES = 16
_CHARACTERS_OF_A_TOKEN = 4
MOST_PAGES = 1_000
"""That are kept; rules may make a list for each principal."""
_NONE: frozenset[str] = frozenset()
Groups: TypeAlias = Literal["all"] | frozenset[int]
"""Of a caller: those that something is reserved to."""


class Audience(Protocol):
    """A caller's attributes that decide the visible entries."""

    @property
    def principal(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def credential(self) -> str: ...
    @property
    def groups(self) -> frozenset[int]: ...
    @property
    def claims(self) -> str: ...
    @property
    def sees_everything(self) -> bool: ...
    @property
    def workspace(self) -> int | None:
        """The one that it came by."""
        ...


class Entry(Protocol):
    """One entry of a list."""

    @property
    def enabled(self) -> bool: ...
    @property
    def groups(self) -> frozenset[int]: ...
    @property
    def sight(self) -> Sight | None:
        """The callers that its upstream shows it to, if that depends on the user."""
        ...

    @property
    def workspace(self) -> Workspace | None:
        """To which it belongs."""
        ...

    @property
    def definition(self) -> dict[str, Json]:
        """In its newest form; older revisions are made from it."""
        ...


def is_visible(entry: Entry, caller: Audience) -> bool:
    if entry.sight is not None and entry.sight.hides(caller.principal):
        return False
    if entry.workspace is not None and not entry.workspace.has(caller):
        return False
    return not entry.groups or caller.sees_everything or not entry.groups.isdisjoint(caller.groups)


def estimated_tokens(characters: int) -> int:
    """Return about how many tokens so many characters of JSON are. Tokenizers differ; four each is a rule of thumb."""
    return -(-characters // _CHARACTERS_OF_A_TOKEN)


def without_output_schema(definition: Mapping[str, Json]) -> dict[str, Json]:
    """Return the definition of a tool for callers whose results may be cut: clients reject a result without
    `structuredContent` where `outputSchema` is declared (MCP, Tools).
    """
    return {name: value for name, value in definition.items() if name != "outputSchema"}


class Listing:
    """One list at one moment. `entries` are by position, a text that is the entry's own and orders the list.

    `scope` distinguishes lists of the same member.
    """

    def __init__(
        self,
        member: str,
        entries: Mapping[str, Entry],
        shaped: Callable[[revisions.Revision, Mapping[str, Json]], dict[str, Json]],
        scope: str = "",
        *,
        varies: bool = False,
    ) -> None:
        """`varies`: other clients see another list."""
        self._varies = varies
        self._member = member
        self._scope = scope
        self._entries = dict(sorted(entries.items()))
        self._shaped = shaped
        self._size = settings.MCPHUB_LIST_PAGE_SIZE
        self._restricting: frozenset[int] = frozenset().union(*(entry.groups for entry in entries.values()))
        self._pages: dict[Any, bytes] = {}
        self._parts: dict[Any, tuple[list[str], list[bytes]]] = {}
        """Positions and encoded entries, kept of lists with several pages only."""

    @cached_property
    def estimated_tokens(self) -> int:
        """About how many tokens the whole list is to a model: a quarter of its characters, without counting them."""
        texts = (json.dumps(entry.definition).decode() for entry in self._entries.values() if entry.enabled)
        return estimated_tokens(sum(map(len, texts)))

    @cached_property
    def without_output_schemas(self) -> Listing:
        """The list for callers whose results may be cut."""

        def shaped(revision: revisions.Revision, definition: Mapping[str, Json]) -> dict[str, Json]:
            return self._shaped(revision, without_output_schema(definition))

        return Listing(self._member, self._entries, shaped, self._scope, varies=True)

    @cached_property
    def _governed(self) -> dict[str, Tool]:
        """Those that checks may hide, which are known once the list is made."""
        return {
            position: entry  # type: ignore[misc]  # a tool alone has checks
            for position, entry in self._entries.items()
            if getattr(entry, "hiding", ())
        }

    @cached_property
    def _sighted(self) -> dict[str, Sight]:
        """The visible entries of upstreams with lists that depend on the user."""
        return {position: entry.sight for position, entry in self._entries.items() if entry.sight is not None}

    def _hidden_from(self, caller: Audience) -> frozenset[str]:
        """Return the positions hidden from the caller by rules or upstreams."""
        return frozenset(at for at, tool in self._governed.items() if tool.hidden_by(caller) is not None).union(
            (at for at, sight in self._sighted.items() if sight.hides(caller.principal)),
            *(theirs for workspace, theirs in self._owned.items() if not workspace.has(caller)),
        )

    @cached_property
    def _owned(self) -> dict[Workspace, frozenset[str]]:
        """The positions of entries owned by workspaces, by workspace."""
        found: dict[Workspace, set[str]] = {}
        for position, entry in self._entries.items():
            if entry.workspace is not None:
                found.setdefault(entry.workspace, set()).add(position)
        return {workspace: frozenset(theirs) for workspace, theirs in found.items()}

    @property
    def _hides(self) -> bool:
        """Whether something is hidden from some callers for another reason than its groups."""
        return bool(self._governed or self._sighted or self._owned)

    @property
    def is_public(self) -> bool:
        """Whether every caller sees the same list, so that caches may share it."""
        return not self._restricting and not self._varies and not self._hides

    def page(self, caller: Audience, version: str, tail: bytes = b"", cursor: object = None) -> bytes:
        """Return a list's result as bytes, in the form of the protocol `version`: the first page, or that of `cursor`.

        `tail` holds further members of the result, already encoded and beginning with a comma. Raises
        InvalidParams for a cursor that is not of this list.
        """
        audience: Groups = "all" if caller.sees_everything else caller.groups & self._restricting
        hidden = self._hidden_from(caller) if self._hides else _NONE
        if len(self._pages) > MOST_PAGES:
            self._pages.clear()
            self._parts.clear()
        if cursor is None and (made := self._pages.get((version, audience, hidden, tail, 0))) is not None:
            return made
        begin = 0
        after = None if cursor is None else self._position(cursor, version, audience)
        positions, parts = self._encoded(caller, version, audience, hidden)
        if after is not None:
            begin = bisect_right(positions, after)
        key = (version, audience, hidden, tail, begin)
        if (made := self._pages.get(key)) is not None:
            return made
        end = begin + self._size
        more = b""
        if end < len(parts):
            more = b',"nextCursor":' + json.dumps(self._cursor(positions[end - 1], version, audience))
        made = b'{"%b":[%b]%b%b}' % (self._member.encode(), b",".join(parts[begin:end]), more, tail)
        # Where entries came or went meanwhile, cursors point between the pages of now: those are made anew.
        if begin % self._size == 0:
            self._pages[key] = made
        return made

    def _encoded(
        self, caller: Audience, version: str, audience: Groups, hidden: frozenset[str]
    ) -> tuple[list[str], list[bytes]]:
        kept = self._parts.get((version, audience, hidden))
        if kept is not None:
            return kept
        revision = revisions.revision(version)
        shown = [
            (position, json.dumps(self._shaped(revision, entry.definition)))
            for position, entry in self._entries.items()
            if entry.enabled and position not in hidden and is_visible(entry, caller)
        ]
        made = [position for position, _ in shown], [part for _, part in shown]
        if len(shown) > self._size:
            self._parts[version, audience, hidden] = made
        return made

    def _cursor(self, position: str, version: str, audience: Groups) -> str:
        named = position.encode("utf-8", "surrogatepass")
        return base64.urlsafe_b64encode(self._mac(named, version, audience) + named).decode().rstrip("=")

    def _position(self, cursor: Json, version: str, audience: Groups) -> str:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            raw = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
            named = raw[_MAC_BYTES:]
            if hmac.compare_digest(raw[:_MAC_BYTES], self._mac(named, version, audience)):
                return named.decode("utf-8", "surrogatepass")
        except (TypeError, ValueError, binascii.Error):
            pass
        raise InvalidParams("The cursor is not of this list, or no longer. Ask again without a cursor.")

    def _mac(self, position: bytes, version: str, audience: Groups) -> bytes:
        named = f"{self._member} {self._scope}" if self._scope else self._member
        bound = json.dumps([named, version, audience if audience == "all" else sorted(audience)])
        return salted_hmac("mcphub.cursor", bound + b"\n" + position, algorithm="sha256").digest()[:_MAC_BYTES]
