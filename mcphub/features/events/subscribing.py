"""`events/subscribe` and `events/unsubscribe`: rows for callbacks that receive events (SEP-3415, Webhook).

REST and the command subscribe through `subscribe`, with the same checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.db import transaction
from django.db.models import Min, QuerySet
from django.utils import timezone

from mcphub.features.events import callbacks, methods, reading
from mcphub.features.events.access import Receiver
from mcphub.features.events.callbacks import CallbackFailed
from mcphub.features.events.errors import (
    EventCallback,
    EventExhausted,
    EventForbidden,
    EventMissing,
    EventUnsupported,
    numbered,
)
from mcphub.features.events.models import EventChallenge, EventLog, EventSubscription, Occurrence
from mcphub.features.events.reading import EventFilter
from mcphub.features.events.recording import OCCURRED
from mcphub.features.events.subscriber import EventSubscriber
from sessions_app import bus
from sessions_app.history import events
from sessions_app.history.events import Actor
from sessions_app.protocol import json
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json
from tools_catalog import secrets

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result

DEFAULT_TTL = timedelta(hours=1)
SHORTEST_TTL, LONGEST_TTL = timedelta(minutes=5), timedelta(days=1)
LONGEST_UNSEEN = timedelta(hours=1)
"""Of credentials whose end the hub cannot find out by itself."""
BOTH_SIGN = timedelta(minutes=10)
"""How long the secret before signs, too."""
MOST_OF_CALLER = 100
MOST_IN_ALL = 10_000
MOST_CHALLENGES = 20
"""Within a minute, of one caller or to one host."""
CHALLENGES_KEPT = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """A valid request to subscribe or to unsubscribe."""

    subscriber: EventSubscriber
    wanted: EventFilter
    url: str

    @property
    def mark(self) -> str:
        """The subscription's ID: equal for equal requests, and no secret."""
        caller, wanted = self.subscriber.caller, self.wanted
        address = [self.subscriber.toolset, caller.workspace_slug]
        key = [caller.principal, address, self.url, wanted.name, wanted.arguments()]
        return f"sub_{json.digest(json.canonical(key)).rpartition(':')[2][:32]}"

    @property
    def url_print(self) -> str:
        return secrets.fingerprint(self.url)[:80]

    @property
    def host(self) -> str:
        return (urlsplit(self.url).hostname or "")[:260]


@numbered
async def events_subscribe(exchange: McpExchange, params: dict[str, Json]) -> Result:
    answer = await subscribe(EventSubscriber.of(exchange), await methods.receiver_of(exchange), params)
    return {**answer, **methods.complete(exchange)}


async def subscribe(subscriber: EventSubscriber, receiver: Receiver, params: dict[str, Json]) -> dict[str, Json]:
    """Subscribe a callback, or renew its subscription, by the parameters of the method. The door does not matter.

    Raises InvalidParams, EventError.
    """
    wanted = methods.wanted_of(receiver, params)
    request, delivery = _request(subscriber, wanted, params)
    if delivery.get("mode", "webhook") != "webhook":
        words = "events/subscribe delivers by webhook alone. Use events/poll or events/stream for the other ways."
        raise EventUnsupported(words, feature="deliveryMode", value=str(delivery["mode"])[:40])
    secret = callbacks.checked_secret(delivery.get("secret"))
    ttl = _granted(request.subscriber, params)
    after, max_age = reading.position_of(params.get("cursor")), methods.age_of(params)
    refreshed = await database_sync_to_async(_refresh)(request, secret, ttl)
    if refreshed is not None:
        return refreshed
    if not await database_sync_to_async(_is_verified)(request):
        try:
            await callbacks.verify(callbacks.client, request.url, secret, request.mark)
        except CallbackFailed as failed:
            raise _refusal(failed) from failed
    return await database_sync_to_async(_create)(request, secret, ttl, after, max_age)


@numbered
async def events_unsubscribe(exchange: McpExchange, params: dict[str, Json]) -> Result:
    receiver = await methods.receiver_of(exchange)
    # Whoever lost the right may still end the subscription.
    wanted = methods.wanted_of(receiver, params, needs_right=False)
    request, _ = _request(EventSubscriber.of(exchange), wanted, params)
    if not await database_sync_to_async(end)(request.mark, "unsubscribed"):
        raise EventMissing("There is no such subscription, or it has expired.", kind="subscription")
    return methods.complete(exchange)


@transaction.atomic
def end(mark: str, why: str) -> bool:
    """Remove a subscription with its deliveries, on record; return whether it was in force."""
    row = EventSubscription.objects.filter(mark=mark).first()
    if row is None or not EventSubscription.objects.filter(pk=row.pk).delete()[0]:
        return False
    if not row.is_ending:
        _record(row, "event_subscription.ended", why)
    return row.expires_at > timezone.now() and not row.is_ending


@transaction.atomic
def end_by_operator(rows: QuerySet[EventSubscription], by: Actor, why: str) -> int:
    """End subscriptions, on record; each callback gets the end. Return the number."""
    count = 0
    for row in rows:
        if EventSubscription.objects.filter(pk=row.pk, is_ending=False).update(is_ending=True):
            count += 1
            _record(row, "event_subscription.ended", why, by)
    bus.publish(OCCURRED)
    return count


def watermark(row: EventSubscription) -> int:
    """Return a position up to which every event arrived or was abandoned."""
    newest = EventLog.now().newest
    waiting = row.deliveries.aggregate(first=Min("occurrence_id"))["first"]
    if waiting is not None:
        return int(waiting) - 1
    unread = Occurrence.objects.filter(name=row.name, position__gt=row.read_upto, position__lte=newest)
    return row.read_upto if unread.exists() else max(newest, row.read_upto)


def _request(
    subscriber: EventSubscriber, wanted: EventFilter, params: dict[str, Json]
) -> tuple[CallbackRequest, dict[str, Json]]:
    if not subscriber.caller.principal.startswith(("key:", "user:")):
        raise EventForbidden("Webhooks need a key or a sign-in. Without one, poll or stream.", reason="anonymous")
    delivery = params.get("delivery")
    if not isinstance(delivery, dict):
        raise InvalidParams("delivery is missing: it must be an object with url and, to subscribe, secret.")
    url = callbacks.checked_url(delivery.get("url"))
    return CallbackRequest(subscriber, wanted, url), delivery


def _granted(subscriber: EventSubscriber, params: dict[str, Json]) -> timedelta:
    """Return the lifetime; null asks for one without end, and gets the longest."""
    longest = LONGEST_TTL if subscriber.lasts else LONGEST_UNSEEN
    if "ttlMs" not in params:
        return min(DEFAULT_TTL, longest)
    asked = params["ttlMs"]
    if asked is None:
        return longest
    if not isinstance(asked, int) or isinstance(asked, bool) or asked <= 0:
        raise InvalidParams("ttlMs must be a whole number above 0, or null.")
    return max(SHORTEST_TTL, min(longest, timedelta(milliseconds=min(asked, 10**12))))


def _refusal(failed: CallbackFailed) -> Exception:
    if failed.is_refused:
        return InvalidParams("The hub does not send events to delivery.url. Ask the operator to allow the host.")
    words = {
        "challenge_failed": "The callback did not return the challenge. It must answer 2xx with the challenge as JSON.",
        "timeout": f"The callback did not answer within {callbacks.PATIENCE_SECONDS:.0f} seconds.",
        "tls_error": "The certificate of the callback cannot be verified.",
        "connection_refused": "The callback cannot be reached.",
    }
    sentence = words.get(failed.reason, "The callback answered the challenge with an error.")
    return EventCallback(sentence, reason=failed.reason)


def _refresh(request: CallbackRequest, secret: str, ttl: timedelta) -> dict[str, Json] | None:
    """Renew a live subscription; None where there is none."""
    now = timezone.now()
    with transaction.atomic():
        row = (
            EventSubscription.objects.select_for_update()
            .filter(mark=request.mark, expires_at__gt=now, is_ending=False)
            .first()
        )
        if row is None:
            return None
        before = row.unseal("secret")
        if before != secret:
            row.seal("previous", before)
            row.seal("secret", secret)
            row.previous_until = now + BOTH_SIGN
        row.expires_at, row.subscriber = now + ttl, request.subscriber.stored()
        row.caller_label = request.subscriber.caller.label[:200]
        names = ["secret_ciphertext", "previous_ciphertext", "previous_until", "expires_at", "subscriber"]
        row.save(update_fields=[*names, "caller_label"])
    return _answer(row, watermark(row), is_truncated=False) | {"deliveryStatus": _status(row)}


def _status(row: EventSubscription) -> dict[str, Json]:
    sent, failing = row.last_sent_at, row.failing_since
    status: dict[str, Json] = {
        "active": True,
        "lastDeliveryAt": sent.isoformat() if sent is not None else None,
        "lastError": row.last_error or None,
    }
    return {**status, "failedSince": failing.isoformat()} if failing is not None else status


def _answer(row: EventSubscription, position: int, *, is_truncated: bool) -> dict[str, Json]:
    return {
        "id": row.mark,
        "refreshBefore": row.expires_at.isoformat(),
        "cursor": reading.cursor_of(position),
        "truncated": is_truncated,
    }


def _is_verified(request: CallbackRequest) -> bool:
    """Return whether the caller's callback is known; if not, count the challenge that follows.

    Raises EventExhausted.
    """
    now, principal = timezone.now(), request.subscriber.caller.principal
    live = EventSubscription.objects.filter(expires_at__gt=now)
    if live.filter(principal=principal).count() >= MOST_OF_CALLER or live.count() >= MOST_IN_ALL:
        words = "There are as many event subscriptions as there may be. End one with events/unsubscribe."
        raise EventExhausted(words, limit="subscriptions", max=MOST_OF_CALLER)
    if live.filter(principal=principal, url_print=request.url_print).exists():
        return True
    recent = EventChallenge.objects.filter(at__gt=now - CHALLENGES_KEPT)
    if max(recent.filter(principal=principal).count(), recent.filter(host=request.host).count()) >= MOST_CHALLENGES:
        raise EventExhausted("Too many new callbacks within a minute. Wait and try again.", limit="verifications")
    EventChallenge.objects.create(principal=principal, host=request.host)
    return False


def _create(
    request: CallbackRequest, secret: str, ttl: timedelta, after: int | None, max_age: timedelta | None
) -> dict[str, Json]:
    caller, parts = request.subscriber.caller, urlsplit(request.url)
    start = reading.begin(request.wanted, after, max_age)
    row = EventSubscription(
        mark=request.mark,
        name=request.wanted.name,
        arguments=request.wanted.arguments(),
        principal=caller.principal,
        caller_label=caller.label[:200],
        subscriber=request.subscriber.stored(),
        url_print=request.url_print,
        shown_url=f"https://{parts.netloc}/…"[:300],
        expires_at=timezone.now() + ttl,
        read_upto=start.position,
    )
    row.seal("url", request.url)
    row.seal("secret", secret)
    with transaction.atomic():
        # One that has expired, or that another request with the same key made meanwhile.
        EventSubscription.objects.filter(mark=row.mark).delete()
        row.save()
        _record(row, "event_subscription.made")
    return _answer(row, start.position, is_truncated=start.is_truncated)


def _record(row: EventSubscription, kind: str, why: str = "", by: Actor | None = None) -> None:
    after: dict[str, Json] = {"event": row.name, "callback": row.shown_url, "expires_at": row.expires_at.isoformat()}
    actor = by or Actor(row.principal, row.caller_label)
    events.record(
        kind, actor=actor, model=EventSubscription, subject=row.pk or "", label=str(row), after=after, reason=why
    )
