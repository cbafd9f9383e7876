"""Deliveries of upstreams that send a type of events by webhook alone: the hub's address for each, what is signed for
it, and what the message means (SEP-3415, Webhook; Standard Webhooks).
"""

from __future__ import annotations

import base64
import hmac
import secrets as randomness
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from mcphub.features.events import taking
from mcphub.features.events.errors import CallbackMissing, DeliveryUnsigned
from mcphub.features.events.models import EventSource, UpstreamCallback, UpstreamEvent
from mcphub.features.events.taking import LeaseLost, Taken
from mcphub.features.notifications import messages
from mcphub.features.notifications.models import signing_key
from sessions_app.protocol import json
from sessions_app.protocol.errors import InvalidRequest, PayloadTooLarge, RateLimited
from sessions_app.protocol.json import Json

PREFIX: Final = "/mcp/callbacks/"
MOST_BYTES: Final = 256 * 1024
"""Of one delivery, as the extension has it."""
FRESH_SECONDS: Final = 300
_KEPT_IDS = 50
_LONGEST_HEADER = 2000
_HEADERS = (b"webhook-id", b"webhook-timestamp", b"webhook-signature")


@dataclass(frozen=True, slots=True)
class SignedHeaders:
    """The headers of a delivery, well-formed and of now."""

    id: str
    seconds: int
    signatures: tuple[str, ...]

    def signs(self, body: bytes, secret: str) -> bool:
        expected = f"v1,{messages.signature(self.id, self.seconds, body, signing_key(secret))}"
        return any(hmac.compare_digest(expected.encode(), each.encode()) for each in self.signatures)


@dataclass(frozen=True, slots=True)
class CallbackTarget:
    """The type of events that an address is for, and the secret that signs its deliveries."""

    event_id: int
    name: str
    connection: str
    secret: str


def address_of(event_id: int) -> str:
    """Return the public address for deliveries of a type; empty where the hub has none that upstreams may use."""
    base = settings.MCPHUB_PUBLIC_URL.rstrip("/")
    return f"{base}{PREFIX}{_token(event_id)}" if base.lower().startswith("https://") else ""


def _token(event_id: int) -> str:
    return f"{event_id}.{salted_hmac('mcphub.events.callback', str(event_id), algorithm='sha256').hexdigest()[:40]}"


def event_of(token: str) -> int:
    """Return the type of an address; raise CallbackMissing. Asks nobody, so that guesses cost little."""
    digits = token.partition(".")[0]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise CallbackMissing
    if not hmac.compare_digest(_token(int(digits)).encode(), token.encode("utf-8", "replace")):
        raise CallbackMissing
    return int(digits)


def headers_of(sent: Iterable[tuple[bytes, bytes]], now: float | None = None) -> SignedHeaders:
    """Read the headers of a delivery. Raises DeliveryUnsigned where one is missing, twice there, or not of now."""
    found: dict[bytes, str] = {}
    for name, value in sent:
        if name in _HEADERS:
            if name in found or len(value) > _LONGEST_HEADER or not value.isascii():
                raise DeliveryUnsigned
            found[name] = value.decode()
    if len(found) < len(_HEADERS):
        raise DeliveryUnsigned
    id_, moment, signatures = (found[name] for name in _HEADERS)
    is_number = moment.isdecimal() and len(moment) < 13 and str(int(moment)) == moment
    if not id_ or not is_number or abs((time.time() if now is None else now) - int(moment)) > FRESH_SECONDS:
        raise DeliveryUnsigned
    return SignedHeaders(id_, int(moment), tuple(signatures.split()))


def check_length(sent: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a body that its header declares too large, before any of it is read. Raises PayloadTooLarge."""
    for name, value in sent:
        if name == b"content-length" and value.isdigit():
            check_size(int(value[:20]))


def check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise PayloadTooLarge(f"A delivery has at most {MOST_BYTES} bytes.", limit_bytes=MOST_BYTES)


def target(event_id: int) -> CallbackTarget:
    """Return the type of an address with its secret. Raises CallbackMissing, RateLimited, SecretError."""
    row = UpstreamCallback.objects.select_related("event__connection").filter(pk=event_id).first()
    if row is None or not row.event.connection.enabled or not _is_wanted(row):
        raise CallbackMissing
    paused = EventSource.objects.filter(pk=row.event.connection_id).values_list("paused_until", flat=True).first()
    if paused is not None and paused > timezone.now():
        raise too_many((paused - timezone.now()).total_seconds())
    return CallbackTarget(row.pk, row.event.name, row.event.connection.slug, row.secret())


def too_many(seconds: float) -> RateLimited:
    refusal = RateLimited(f"The hub takes {taking.MOST_AN_HOUR} events an hour of an upstream. Send it again later.")
    refusal.retry_after_seconds = max(1.0, seconds)
    return refusal


def message_of(headers: SignedHeaders, body: bytes) -> dict[str, Json]:
    """Read a signed body. An event has the ID that it was signed with. Raises ParseError, InvalidRequest."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise InvalidRequest("The body of a delivery is a JSON object.")
    if "type" not in found and found.get("eventId") != headers.id:
        raise InvalidRequest("The webhook-id of an event is its eventId.")
    return found


@transaction.atomic
def take_gap(event_id: int, message_id: str, cursor: Json) -> Taken | None:
    """Note that the upstream skipped events; return None where the message came before. Raises LeaseLost."""
    return taking.take(None, event_id, [], cursor, skipped=True) if _is_first(event_id, message_id) else None


@transaction.atomic
def take_end(event_id: int, message_id: str, error: Json) -> None:
    """Note that the upstream ended the subscription: it is asked for again after a pause."""
    if not _is_first(event_id, message_id):
        return
    words = error.get("message") if isinstance(error, dict) else None
    failures = UpstreamEvent.objects.values_list("failures", flat=True).get(pk=event_id)
    problem = f"The upstream ended the subscription: {str(words)[:200]}"
    taking.postpone(None, event_id, taking.pause(failures), problem)


def _is_first(event_id: int, message_id: str) -> bool:
    row = UpstreamCallback.objects.select_for_update().filter(pk=event_id).first()
    if row is None:
        raise LeaseLost
    if message_id in row.control_ids:
        return False
    row.control_ids = [*row.control_ids, message_id[:200]][-_KEPT_IDS:]
    row.save(update_fields=["control_ids"])
    return True


@dataclass(frozen=True, slots=True)
class FormerSubscription:
    """A subscription at an upstream that is to end there."""

    event_id: int
    name_there: str
    url: str
    arguments: dict[str, Json]


@dataclass(frozen=True, slots=True)
class OwnSubscription:
    """A subscription of the hub as it asks an upstream for it."""

    url: str
    secret: str
    former: FormerSubscription | None = None
    """Another one, for which the upstream still delivers."""


@transaction.atomic
def prepare(event_id: int, url: str, arguments: dict[str, Json]) -> OwnSubscription:
    """Return the subscription of a type, made where there is none: deliveries may come before the upstream answers.

    Raises SecretError.
    """
    row = UpstreamCallback.objects.select_for_update().select_related("event").filter(pk=event_id).first()
    if row is not None and row.url == url and row.arguments == arguments:
        return OwnSubscription(url, row.secret())
    former = None if row is None else _former(row)
    secret = "whsec_" + base64.b64encode(randomness.token_bytes(32)).decode()
    fresh = UpstreamCallback(event_id=event_id, url=url, arguments=arguments)
    fresh.seal(secret)
    fresh.save()
    return OwnSubscription(url, secret, former)


def left(connection_id: int) -> list[FormerSubscription]:
    """Return the subscriptions at an upstream that nobody wants any more."""
    rows = UpstreamCallback.objects.filter(event__connection_id=connection_id).select_related("event")
    return [
        _former(row)
        for row in rows
        if not _is_wanted(row) or row.event.misfit or row.event.offered.get("delivery") != ["webhook"]
    ]


def _is_wanted(row: UpstreamCallback) -> bool:
    """Return True where its type is approved with the arguments that it was subscribed with."""
    return bool(row.event.approved) and row.arguments == row.event.arguments


def _former(row: UpstreamCallback) -> FormerSubscription:
    return FormerSubscription(row.pk, row.event.name_there, row.url, row.arguments)


def forget(event_id: int) -> None:
    UpstreamCallback.objects.filter(pk=event_id).delete()
