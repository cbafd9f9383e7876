"""The forms of notices outside: a signed webhook, an e-mail, messages of chats. Pure, so that each is tested as it is.

A webhook is signed according to Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp` and `webhook-signature`,
which is `v1,` and HMAC-SHA256 over `id.timestamp.body` in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from sessions_app.protocol import json
from sessions_app.protocol.json import Json

MOST_IN_ONE = 50
"""Notices in one message; further ones are in the next."""
_SHOWN_IN_CHAT = 20
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~<>&-])")


@dataclass(frozen=True, slots=True)
class Told:
    """One notice in the words of its reader."""

    id: int
    kind: str
    title: str
    words: str
    subject: str
    count: int
    first_at: datetime
    last_at: datetime
    link: str
    is_alarm: bool = False


def webhook_body(told: Told) -> bytes:
    return json.dumps(
        {
            "type": told.kind,
            "timestamp": told.first_at.isoformat(),
            "data": {
                "id": told.id,
                "title": told.title,
                "text": told.words,
                "subject": told.subject,
                "count": told.count,
                "alarm": told.is_alarm,
                "first_at": told.first_at.isoformat(),
                "last_at": told.last_at.isoformat(),
                "link": told.link,
            },
        }
    )


def webhook_headers(id_: str, seconds: int, body: bytes, key: bytes) -> dict[str, str]:
    """Return the headers of one attempt; `key` are the bytes behind `whsec_`."""
    return {
        "content-type": "application/json",
        "webhook-id": id_,
        "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + signature(id_, seconds, body, key),
    }


def signature(id_: str, seconds: int, body: bytes, key: bytes) -> str:
    signed = f"{id_}.{seconds}.".encode() + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def heading(told: Sequence[Told]) -> str:
    if len(told) == 1:
        return f"MCP Hub: {told[0].title}"
    return ngettext("MCP Hub: %(count)d notification", "MCP Hub: %(count)d notifications", len(told)) % {
        "count": len(told)
    }


def mail_text(told: Sequence[Told], own_page: str) -> str:
    parts = [f"{each.title}\n{each.words}\n{each.link}" for each in told]
    farewell = _t("You receive this because you subscribed. Manage your notifications: %(page)s") % {"page": own_page}
    return "\n\n".join(parts) + f"\n\n-- \n{farewell}\n"


def slack(told: Sequence[Told]) -> dict[str, Json]:
    """Plain text: names of upstreams make no links, no mentions and no bold type."""
    lines = [f"{each.title}: {each.words} {each.link}" for each in told[:_SHOWN_IN_CHAT]]
    text = "\n".join([heading(told), *lines, *_further(told)])
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"), "mrkdwn": False}


def teams(told: Sequence[Told]) -> dict[str, Json]:
    """An adaptive card, which incoming webhooks of Teams' workflows take."""
    blocks: list[Json] = [_block(heading(told), weight="Bolder")]
    for each in told[:_SHOWN_IN_CHAT]:
        blocks.append(_block(f"{each.title}: {each.words}"))
    blocks += [_block(line) for line in _further(told)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "actions": [{"type": "Action.OpenUrl", "title": _t("Open"), "url": told[0].link}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _further(told: Sequence[Told]) -> list[str]:
    more = len(told) - _SHOWN_IN_CHAT
    return [_t("and %(count)d more") % {"count": more}] if more > 0 else []


def _block(text: str, **look: str) -> dict[str, Json]:
    return {"type": "TextBlock", "text": _MARKDOWN.sub(r"\\\1", text), "wrap": True, **look}
