"""Parts that a feature may add to the audit, listed in its `FeatureConfig`. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from django.utils.functional import _StrOrPromise

    from invocations.chain.log import Log


@dataclass(frozen=True, slots=True)
class FailureFollower:
    """A module that follows failed calls as they are sealed: a `FollowingModule`. The sealing process, which has no
    Django, imports it.
    """

    module: str


class FollowingModule(Protocol):
    """The functions of such a module."""

    def gained(self, log: Log, failed: Sequence[Mapping[str, Any]]) -> Any:
        """Return the addition of a block's failed calls, read before it is written."""
        ...

    def add(self, log: Log, gains: Any, now: datetime) -> None:
        """Add that, within the transaction that writes the block."""
        ...

    def forget(self, log: Log, now: datetime) -> bool:
        """Delete some expired rows; return whether there may be more."""
        ...


@dataclass(frozen=True, slots=True)
class FailureLink:
    """A link on the page of a failed call: a function of request and call that returns the address, or ""."""

    title: _StrOrPromise
    address: str


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Values that the search of calls offers for a column: a function of the begun text that returns pairs of value
    and title.
    """

    column: str
    function: str


@dataclass(frozen=True, slots=True)
class EventSubject:
    """Events of the configuration history that have something of their own: kinds that begin with `name` and a dot."""

    name: str
    title: _StrOrPromise
