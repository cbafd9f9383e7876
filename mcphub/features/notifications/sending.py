"""Brings notices out of the hub. One worker at a time sends for a subscription: it holds the row's lease.

The lease is longer than one turn may take, so a killed worker loses it, and its unconfirmed messages are sent once
more under the same message ID: at least once. Subscriptions do not wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from email.utils import make_msgid

import httpx2
from channels.db import database_sync_to_async
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.module_loading import import_string

from mcphub.features.notifications import messages, noticing
from mcphub.features.notifications.messages import Told
from mcphub.features.notifications.models import Delivery, Notice, Subscription, signing_key
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog.egress import guard
from tools_catalog.secrets import SecretError

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
"""For one attempt."""
TURN_SECONDS = 40.0
"""For all attempts of one turn of one subscription."""
LEASE_SECONDS = 90
AT_ONCE = 8
"""Subscriptions that one process sends for at the same time."""
_PAUSES = (5, 30, 120, 600, 1800, 3600, 7200, 14_400)
"""Seconds after the first, the second … failure; from the last on always so long. Each within a fifth, by chance."""
MOST_MAIL_CHARACTERS = 100_000


class NotSent(Exception):
    """An attempt failed. The message is the reason, without secrets of the address."""

    def __init__(self, words: str, *, is_final: bool = False) -> None:
        super().__init__(words)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Letter:
    """The content of one delivery."""

    delivery_id: int
    mark: str
    told: Told


@dataclass(frozen=True, slots=True)
class Post:
    """One turn of a subscription that this process holds the lease of."""

    subscription_id: int
    way: str
    language: str
    address: str
    secret: str
    letters: tuple[Letter, ...]


class Sender:
    """One a process. `send_due` is called when something may be due; turns of many subscriptions run side by side."""

    def __init__(self, process_id: str) -> None:
        self._process_id = process_id

    async def send_due(self) -> int:
        """Send due letters; return the number of successful deliveries."""
        taken = await database_sync_to_async(claim)(self._process_id, AT_ONCE)
        return sum(await asyncio.gather(*(self._turn(each) for each in taken)))

    async def _turn(self, subscription_id: int) -> int:
        sent: list[int] = []
        failure: NotSent | None = None
        post: Post | None = None
        try:
            post = await database_sync_to_async(collect)(subscription_id)
            if post is not None:
                async with asyncio.timeout(TURN_SECONDS):
                    await send(post, sent)
        except TimeoutError:
            failure = NotSent(f"it took longer than {TURN_SECONDS:.0f} seconds")
        except NotSent as error:
            failure = error
        except SecretError as error:
            failure = NotSent(str(error))
        finally:
            # What was sent is noted though the hub stops just now: else the receiver would hear it twice.
            letters = [each.delivery_id for each in post.letters] if post is not None else []
            rest = [each for each in letters if each not in sent]
            await asyncio.shield(database_sync_to_async(finish)(subscription_id, self._process_id, sent, rest, failure))
        return len(sent)


def claim(process_id: str, most: int) -> list[int]:
    """Take the lease of subscriptions for which something is due; give their keys."""
    now = timezone.now()
    is_free = Q(leased_until=None) | Q(leased_until__lt=now)
    due = Delivery.objects.filter(state=Delivery.State.WAITING, due_at__lte=now).values("subscription")
    rows = Subscription.objects.filter(is_free, pk__in=due).order_by("pk").values_list("pk", flat=True)
    until = now + timedelta(seconds=LEASE_SECONDS)
    taken = []
    for pk in list(rows[:most]):
        if Subscription.objects.filter(is_free, pk=pk).update(leased_by=process_id, leased_until=until):
            taken.append(pk)
    return taken


def collect(subscription_id: int) -> Post | None:
    """Read the due notices of a subscription; abandon those that its owner may no longer read."""
    row = Subscription.objects.select_related("person").get(pk=subscription_id)
    due = row.deliveries.filter(state=Delivery.State.WAITING, due_at__lte=timezone.now()).select_related("notice")
    letters = []
    with translation.override(row.language):
        for delivery in due.order_by("pk")[: messages.MOST_IN_ONE]:
            if not row.enabled:
                _give_up(delivery, "The subscription was switched off.")
            elif not noticing.is_permitted(row, delivery.notice):
                _give_up(delivery, "The person or group may not read such notices any more.")
            else:
                letters.append(Letter(delivery.pk, f"msg_{delivery.mark.hex}", told(delivery.notice)))
    if not letters:
        return None
    return Post(row.pk, row.way, row.language, row.address(), row.secret(), tuple(letters))


def told(notice: Notice) -> Told:
    """Return a notice in the words of the active language."""
    described = notice.described
    return Told(
        notice.pk,
        notice.kind,
        notice.title,
        notice.words,
        notice.subject,
        notice.count,
        notice.first_at,
        notice.last_at,
        outside(reverse("admin:telling_notice_change", args=[notice.pk])),
        bool(described and described.is_alarm),
    )


def outside(path: str) -> str:
    return settings.MCPHUB_PUBLIC_URL.rstrip("/") + path


def finish(
    subscription_id: int, process_id: str, sent: Sequence[int], rest: Sequence[int], failure: NotSent | None
) -> None:
    """Note successes and failures, and return the lease."""
    now = timezone.now()
    with transaction.atomic():
        waiting = Delivery.objects.filter(state=Delivery.State.WAITING)
        waiting.filter(pk__in=sent).update(state=Delivery.State.SENT, tries=F("tries") + 1, ended_at=now, error="")
        if failure is not None:
            for delivery in waiting.filter(pk__in=rest):
                delivery.tries += 1
                delivery.error = str(failure)[:500]
                if failure.is_final or delivery.tries >= settings.MCPHUB_NOTICE_TRIES:
                    delivery.state, delivery.ended_at = Delivery.State.DEAD, now
                delivery.due_at = now + timedelta(seconds=pause(delivery.tries))
                delivery.save(update_fields=["tries", "error", "state", "ended_at", "due_at"])
        rows = Subscription.objects.filter(pk=subscription_id)
        if failure is not None:
            rows.filter(failing_since=None).update(failing_since=now)
            rows.update(last_error=str(failure)[:500])
        elif sent:
            rows.update(failing_since=None, last_error="")
        rows.filter(leased_by=process_id).update(leased_by="", leased_until=None)
    if failure is not None:
        logger.warning("Notices of the subscription %d did not arrive: %s", subscription_id, failure)


def pause(tries: int) -> float:
    """Return the seconds until the next attempt."""
    return _PAUSES[min(tries, len(_PAUSES)) - 1] * random.uniform(0.8, 1.2)  # noqa: S311 - no secret


def _give_up(delivery: Delivery, why: str) -> None:
    Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING).update(
        state=Delivery.State.DEAD, ended_at=timezone.now(), error=why
    )


# The ways --------------------------------------------------------------------------------------------------


async def send(post: Post, sent: list[int]) -> None:
    """Send all letters, and add the delivered ones to `sent`. Raises NotSent."""
    told = [each.told for each in post.letters]
    with translation.override(post.language):
        match post.way:
            case Subscription.Way.WEBHOOK:
                key = signing_key(post.secret)
                for letter in post.letters:
                    body = messages.webhook_body(letter.told)
                    await _post(post.address, messages.webhook_headers(letter.mark, int(time.time()), body, key), body)
                    sent.append(letter.delivery_id)
                return
            case Subscription.Way.SLACK:
                await _post(post.address, {"content-type": "application/json"}, json.dumps(messages.slack(told)))
            case Subscription.Way.TEAMS:
                await _post(post.address, {"content-type": "application/json"}, json.dumps(messages.teams(told)))
            case Subscription.Way.EMAIL:
                own_page = outside(reverse("admin:telling_subscription_changelist"))
                mail = (messages.heading(told), messages.mail_text(told, own_page)[:MOST_MAIL_CHARACTERS])
                await asyncio.to_thread(_mail, *mail, post.address, post.letters[0].mark)
    sent.extend(each.delivery_id for each in post.letters)


async def _post(url: str, headers: dict[str, str], body: bytes) -> None:
    """POST through the egress guard. Follows no redirect: the signature is for this address alone."""
    try:
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            guard.client(timeout_seconds=PATIENCE_SECONDS) as client,
            guard.stream(client, "POST", url, headers=headers, content=body, max_redirects=0) as answer,
        ):
            if not answer.is_success:
                # 410: Standard Webhooks says that the receiver wants no more.
                raise NotSent(f"It answered with status {answer.status_code}.", is_final=answer.status_code == 410)
    except TimeoutError as error:
        raise NotSent(f"It did not answer in {PATIENCE_SECONDS:.0f} seconds.") from error
    except (HubError, httpx2.HTTPError) as error:
        raise NotSent(str(error) or type(error).__name__) from error


def _mail(subject: str, text: str, to: str, mark: str) -> None:
    how = settings.MCPHUB_MAIL
    if how is None:
        raise NotSent("The hub cannot send e-mail: MCPHUB_MAIL_URL is not set.")
    # Built here, not by `get_connection`, whose settings change with Django's versions.
    backend = import_string(how.backend)(fail_silently=False, **how.options)
    host = settings.MCPHUB_MAIL_FROM.rpartition("@")[2].rstrip(">") or "mcphub"
    headers = {"Message-ID": f"<{mark}@{host}>" if mark else make_msgid(), "Auto-Submitted": "auto-generated"}
    message = EmailMessage(subject.replace("\n", " "), text, settings.MCPHUB_MAIL_FROM, [to], headers=headers)
    try:
        backend.send_messages([message])
    except Exception as error:  # of the backend, whichever the operator named
        raise NotSent(f"The mail server did not take it: {str(error)[:300] or type(error).__name__}") from error
    finally:
        with suppress(Exception):
            backend.close()
