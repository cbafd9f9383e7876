"""Addresses for a person to open: their IDs, and the notification that the person is done.

An ID (MCP 2025-11-25, Elicitation: `elicitationId`) is sealed for the session of the question, so that any process
can derive the recipient from the ID alone, and nobody else is notified. Nothing is stored.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from sessions_app import bus
from sessions_app.protocol import jsonrpc
from tools_catalog.call import session_news

METHOD = "notifications/elicitation/complete"
_PURPOSE = b"mcphub elicitation id"
_NONCE_BYTES = 12


def completed(elicitation_id: str) -> None:
    """Notify the client of an address that the person is done there. Not from async code.

    For the page behind the address. Does nothing where the client's revision has no such news; raises ValueError for
    an id that no `context.elicitation_id()` gave.
    """
    session_id = session_of(elicitation_id)
    if session_id:
        session_news.publish(bus.SESSION_MESSAGE, session_id, news(elicitation_id).decode())


def news(elicitation_id: str) -> bytes:
    return jsonrpc.encode_notification(METHOD, {"elicitationId": elicitation_id})


def seal(session_id: str, call_id: str, name: str) -> str:
    """Return the id of a question: the same whenever the same call asks under the same name."""
    key = _key()
    nonce = hmac.digest(key, f"{session_id} {call_id} {name}".encode(), hashlib.sha256)[:_NONCE_BYTES]
    return urlsafe_b64encode(nonce + AESGCM(key).encrypt(nonce, session_id.encode(), None)).rstrip(b"=").decode()


def session_of(elicitation_id: str) -> str:
    """Return the session that an ID is sealed for; empty for a client without such notifications. Raises ValueError."""
    try:
        raw = urlsafe_b64decode(elicitation_id.encode("ascii") + b"=" * (-len(elicitation_id) % 4))
        return AESGCM(_key()).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None).decode()
    except (InvalidTag, ValueError) as error:
        raise ValueError("No context.elicitation_id() gave this id.") from error


def _key() -> bytes:
    return hmac.digest(settings.SECRET_KEY.encode(), _PURPOSE, hashlib.sha256)
