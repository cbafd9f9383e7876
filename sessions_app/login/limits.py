"""How often a password may be tried: by address and by name, with pauses that grow, over all processes.

An attempt is counted as a failure before its password is hashed, so that guesses made at once count each other. A name
that does not exist is counted like one that does.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from sessions_app.kit.addresses import network_of
from sessions_app.login.hashing import HubIsBusy, release_connection
from sessions_app.login.models import LoginLimit

Kind = LoginLimit.Kind


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many failures are free; then each begins a pause, twice as long as the last, up to `most_seconds`."""

    free: int
    most_seconds: int

    def pause(self, failures: int) -> timedelta:
        beyond = failures - self.free
        return timedelta(seconds=min(self.most_seconds, _FIRST_PAUSE_SECONDS * 2 ** min(beyond, 20))) * (beyond >= 0)


_FIRST_PAUSE_SECONDS = 15
BOUNDS = {
    Kind.ADDRESS: Allowance(10, 900),  # an office has one address
    Kind.NAME: Allowance(5, 300),  # whoever knows a name can begin its pause, so that stays short
    Kind.PAIR: Allowance(5, 900),
}
FORGOTTEN_AFTER = timedelta(hours=1)
KNOWN_FOR = timedelta(days=30)
_AT_ONCE = 2
"""Guesses of this process that ask the database at one moment: they leave connections to the other pages."""
_PATIENCE_SECONDS = 10
_MOST_NOTED = 1000
_asking = threading.BoundedSemaphore(_AT_ONCE)
_noted: Counter[str] = Counter()
_noting = threading.Lock()


class TooManyGuesses(Exception):
    """The attempt was not looked at, and may be made again at `until`."""

    def __init__(self, until: datetime) -> None:
        super().__init__(until)
        self.until = until


@dataclass(frozen=True, slots=True)
class Attempt:
    """One guess that may be made: it counts as failed until it succeeds or is withdrawn."""

    name: str
    address: str
    rows: tuple[LoginLimit, ...]
    """The counting rows, as of after counting."""

    def withdraw(self) -> None:
        """Uncount attempts that were not checked."""
        with _asked():
            _count_down(self.rows)

    def succeed(self) -> None:
        """Forget the failures at the name, and know the name at this address. Failures of the address stay counted:
        whoever has an account could else guess at the others without end."""
        with _asked(), transaction.atomic():
            _count_down([row for row in self.rows if row.kind == Kind.ADDRESS])
            LoginLimit.objects.filter(pk__in=[row.pk for row in self.rows if row.kind == Kind.NAME]).delete()
            pair = _row(Kind.PAIR, self.name, self.address)
            LoginLimit.objects.bulk_create([pair], ignore_conflicts=True)
            LoginLimit.objects.filter(pk=pk_of(Kind.PAIR, self.name, self.address)).update(
                failures=0, blocked_until=None, known_at=timezone.now()
            )


def look(name: str, address: str) -> None:
    """Raise TooManyGuesses where no attempt may be made now. Writes nothing and takes no lock, so it is cheap."""
    with _asked():
        _refuse_blocked(_found(name, address), timezone.now())


def admit(name: str, address: str) -> Attempt:
    """Count an attempt; raise TooManyGuesses where none may be made now, or HubIsBusy."""
    with _asked(), transaction.atomic():
        kinds = _counted_in(_found(name, address), timezone.now())
        LoginLimit.objects.bulk_create([_row(kind, name, address) for kind in kinds], ignore_conflicts=True)
        keys = [pk_of(kind, name, address) for kind in kinds]
        rows = list(LoginLimit.objects.select_for_update().filter(pk__in=keys).order_by("pk"))
        now = timezone.now()  # the lock may have been waited for
        _refuse_blocked(rows, now)
        for row in rows:
            is_forgotten = row.failed_at is None or now - row.failed_at > FORGOTTEN_AFTER
            row.failures = 1 if is_forgotten else row.failures + 1
            row.failed_at = now
            pause = BOUNDS[Kind(row.kind)].pause(row.failures)
            row.blocked_until = now + pause if pause else None
            row.save(update_fields=["failures", "failed_at", "blocked_until"])
    return Attempt(name, address, tuple(rows))


def flush() -> None:
    """Write how many guesses this process refused."""
    with _noting:
        counts = dict(_noted)
        _noted.clear()
    for key, count in counts.items():
        LoginLimit.objects.filter(pk=key).update(refused=F("refused") + count)


def purge(limit: int = 1000) -> int:
    """Delete rows with forgotten failures and without a known pair; return the number."""
    now = timezone.now()
    old = LoginLimit.objects.filter(
        Q(failed_at__lt=now - FORGOTTEN_AFTER) | Q(failed_at=None),
        Q(known_at__lt=now - KNOWN_FOR) | Q(known_at=None),
        refused=0,
    )
    return LoginLimit.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:limit])).delete()[0]


def pk_of(kind: LoginLimit.Kind, name: str, address: str) -> str:
    parts = {
        Kind.ADDRESS: [network_of(address)],
        Kind.NAME: [name],
        Kind.PAIR: [network_of(address), name],
        Kind.ALL: [],
    }
    return hashlib.sha256("\x00".join([kind, *parts[kind]]).encode("utf-8", "surrogatepass")).hexdigest()


def _row(kind: LoginLimit.Kind, name: str, address: str) -> LoginLimit:
    return LoginLimit(id=pk_of(kind, name, address), kind=kind, address="" if kind == Kind.NAME else address[:64])


def _found(name: str, address: str) -> list[LoginLimit]:
    kinds = (Kind.ADDRESS, Kind.NAME, Kind.PAIR)
    return list(LoginLimit.objects.filter(pk__in=[pk_of(kind, name, address) for kind in kinds]))


def _counted_in(found: Sequence[LoginLimit], now: datetime) -> tuple[LoginLimit.Kind, ...]:
    """A name at an address where it logged in is counted by itself: strangers do not shut its owner out."""
    is_known = any(row.known_at is not None and now - row.known_at < KNOWN_FOR for row in found)
    return (Kind.PAIR,) if is_known else (Kind.ADDRESS, Kind.NAME)


def _refuse_blocked(found: Sequence[LoginLimit], now: datetime) -> None:
    kinds = _counted_in(found, now)
    blocked = [row for row in found if row.kind in kinds and row.blocked_until is not None and row.blocked_until > now]
    if not blocked:
        return
    with _noting:
        for row in blocked:
            if row.pk in _noted or len(_noted) < _MOST_NOTED:
                _noted[row.pk] += 1
    raise TooManyGuesses(max(row.blocked_until for row in blocked if row.blocked_until is not None))


def _count_down(rows: Sequence[LoginLimit]) -> None:
    """Subtract an attempt from its counts. A pause that another attempt began stays."""
    for row in rows:
        now = LoginLimit.objects.filter(pk=row.pk)
        now.filter(failures__gt=0).update(failures=F("failures") - 1)
        if row.blocked_until is not None:
            now.filter(blocked_until=row.blocked_until).update(blocked_until=None)


@contextlib.contextmanager
def _asked() -> Iterator[None]:
    """Let few guesses ask the database at once, and none keep a connection of the pool."""
    release_connection()
    if not _asking.acquire(timeout=_PATIENCE_SECONDS):
        raise HubIsBusy
    try:
        yield
    finally:
        release_connection()
        _asking.release()
