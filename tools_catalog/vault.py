"""The secrets that tools and connections send, as of the newest snapshot. The one place that lets a secret out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_app.protocol.errors import ExecutionError
from tools_catalog.bindings import Destination, unbound

if TYPE_CHECKING:
    from tools_catalog.models import Secret

_vault: dict[str, Secret] = {}
"""By name, still encrypted."""


def read_secrets() -> None:
    """Make the secrets known that `secret_for` gives."""
    from tools_catalog.models import Secret

    # Replaced whole: a call that looks for a secret meanwhile finds the old ones or the new ones.
    global _vault
    _vault = {secret.name: secret for secret in Secret.objects.all()}


def fingerprint_of(name: str) -> str:
    """Return the keyed fingerprint of a secret's value; empty where it does not exist."""
    secret = _vault.get(name)
    return "" if secret is None else secret.fingerprint


def secret_for(name: str, to: Destination) -> str:
    """Return a secret to be sent there; raise ExecutionError where it is bound to other origins, places or users."""
    if name not in _vault:
        raise ExecutionError(f"The secret {name} that the tool needs does not exist. Tell the hub's operator.")
    missing = unbound(_vault[name], to)
    if missing is not None:
        raise ExecutionError(
            f"The secret {name} {missing}, so nothing was sent. Tell the hub's operator: {missing.remedy}.",
            secret=name,
            missing=missing.field,
            wanted=missing.word,
        )
    return _vault[name].value()
