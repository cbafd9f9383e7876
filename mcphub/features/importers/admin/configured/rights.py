"""Permissions to save each draft: as strict as the pages of connections, launch profiles and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext as _t

from mcphub.features.importers.configured.drafts import EXISTING, Draft

NEEDED: Final = ("tools_catalog.add_mcpconnection", "tools_catalog.change_mcpconnection")
LAUNCH: Final = ("tools_catalog.launch_mcpconnection", "tools_catalog.add_launchprofile")
_SECRETS: Final = "tools_catalog.add_secret"
APPROVE: Final = "tools_catalog.approve_mcpupstreamtool"


def check(request: HttpRequest) -> None:
    """Raise PermissionDenied without the permission to create connections."""
    if not request.user.has_perms(NEEDED):
        raise PermissionDenied


def refusal_of(user: User | AnonymousUser, draft: Draft) -> str:
    """Return the reason if the person may not save this draft at all; empty otherwise."""
    if draft.runs_program and not user.has_perms(LAUNCH):
        return _t("It runs a program, so only an upstream manager can add it.")
    return ""


def refusal_of_values(user: User | AnonymousUser, draft: Draft, values: Mapping[str, str]) -> str:
    """Return the reason if the person may not save it with these values: secrets need their own permission."""
    if user.has_perm(_SECRETS):
        return ""
    told = [
        blank.name
        for blank in draft.blanks
        if blank.is_secret and (value := values.get(blank.name) or blank.value) and not EXISTING.fullmatch(value)
    ]
    if not told:
        return ""
    return _t(
        "You can't write secrets. Ask an upstream manager to add them, and enter {secret:NAME} instead of "
        "the value: %(names)s"
    ) % {"names": ", ".join(told)}
