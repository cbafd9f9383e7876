"""Messages of one process to a session whose stream another one holds: encrypted in the change bus."""

from __future__ import annotations

from sessions_app import bus
from tools_catalog import secrets


def publish(subject: str, session_id: str, message: str) -> None:
    """Publish it to every process. `subject`: SESSION_MESSAGE or SESSION_ANSWER. Not from async code."""
    bus.publish(subject, _payload(session_id, message))


async def announce(subject: str, session_id: str, message: str) -> None:
    """The same from the event loop, though the database may be back only in a moment; see `bus.announce`."""
    await bus.announce(subject, _payload(session_id, message))


def read(payload: str) -> tuple[str, str]:
    """Return session and message; raise SecretError for a message from outside this hub."""
    session_id, _, token = payload.partition(" ")
    return session_id, secrets.decrypt(token, aad=_bound(session_id))


def _payload(session_id: str, message: str) -> str:
    return f"{session_id} {secrets.encrypt(message, aad=_bound(session_id))}"


def _bound(session_id: str) -> str:
    return f"news of session {session_id}"
