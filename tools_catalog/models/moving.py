"""Moves credentials that stand in a row as they are into secrets of their own, when the row is saved.

The secret is bound to the row's origin, the location and the row itself, so it gives nobody more than the text did.
"""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext as _t

from sessions_app.history import source
from sessions_app.kit.names import free_name
from tools_catalog import secrets
from tools_catalog.bindings import PROFILE, Destination
from tools_catalog.literals import literal_in
from tools_catalog.models.secrets import Secret

ADD = "tools_catalog.add_secret"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_.-]+")
_LONGEST_NAME = 64


class LiteralRefused(ValueError):
    """A credential in the row was refused; the sentence has the next step."""


def may_write_secrets() -> bool:
    """Return whether the editor may add secrets: a person with that permission, or the user of a command here."""
    user: Any = source.current().user
    return user is None or bool(user.has_perm(ADD))


class Moving:
    """The credentials of one row on their way: found when it is checked, stored when it is saved."""

    def __init__(self) -> None:
        self._new: list[Secret] = []

    def taken(self, texts: Any, place: str, to: Destination, before: Any = None, *, is_moved: bool = False) -> Any:
        """Return `texts` by name with references in place of credentials. Raises LiteralRefused.

        `before` are the stored texts; `is_moved` means that the row was sent to another origin since.
        """
        if not isinstance(texts, dict):
            return texts
        changed = dict(texts)
        for name, text in texts.items():
            found = literal_in(name, text) if isinstance(text, str) else None
            if found is None:
                continue
            if is_moved and isinstance(before, dict) and before.get(name) == text:
                raise LiteralRefused(
                    _t(
                        "%(where)s: the credential belongs to another address. Remove it, or save the row "
                        "with its old address first: it then becomes a secret, and somebody who can edit "
                        "secrets adds %(origin)s to it."
                    )
                    % {"where": f"{place}.{name}", "origin": to.origin}
                )
            if not may_write_secrets():
                raise LiteralRefused(
                    _t(
                        "%(where)s: this looks like a credential, which can't be stored in plain text. Enter "
                        "{secret:NAME}, and have somebody who can edit secrets add the secret NAME."
                    )
                    % {"where": f"{place}.{name}"}
                )
            changed[name] = found.referring(self._secret(found.plain, f"{place}.{name}", to))
        return changed

    def store(self) -> None:
        """Save the found credentials. Takes part in the caller's transaction."""
        new, self._new = self._new, []
        for secret in new:
            secret.change_reason = _t("Moved out of a field that contained it in plain text")
            secret.save()

    def _secret(self, plain: str, place: str, to: Destination) -> str:
        """Return the name of a secret of this value and binding: one that there is, or a new one."""
        users = " ".join(to.users[:1])
        bound = {"origins": to.origin, "places": place, "users": users}
        same = Secret.objects.filter(fingerprint=secrets.fingerprint(plain), **bound).first()
        if same is not None:
            return same.name
        owner = to.origin.removesuffix(PROFILE) if to.origin.endswith(PROFILE) else users.partition(":")[2]
        made = Secret(name=self._free_name(f"{owner}-{place.partition('.')[2]}"), **bound)
        made.set_value(plain)
        self._new.append(made)
        return made.name

    def _free_name(self, wanted: str) -> str:
        plain = _NOT_IN_NAMES.sub("-", wanted.lower()).strip("-")[: _LONGEST_NAME - 4] or "secret"
        taken = {*Secret.objects.filter(name__startswith=plain).values_list("name", flat=True)}
        taken |= {secret.name for secret in self._new}
        return free_name(plain, taken.__contains__, _LONGEST_NAME)


def rows_with_literals() -> list[str]:
    """Name the rows that were stored before the hub looked for credentials, and still hold one as it is."""
    from tools_catalog.models import HttpService, LaunchProfile, McpConnection, McpToolDefinition

    rows: list[tuple[str, Any]] = [
        *((f"service {row.slug}", row.headers) for row in HttpService.objects.all()),
        *((f"connection {row.slug}", row.headers) for row in McpConnection.objects.all()),
        *((f"launch profile {row.name}", row.environment) for row in LaunchProfile.objects.all()),
        *(
            (f"tool {row.name}", row.configuration.get(place))
            for row in McpToolDefinition.objects.filter(backend="http")
            if isinstance(row.configuration, dict)
            for place in ("headers", "query")
        ),
    ]
    return [
        label
        for label, texts in rows
        if isinstance(texts, dict)
        and any(isinstance(text, str) and literal_in(name, text) is not None for name, text in texts.items())
    ]
