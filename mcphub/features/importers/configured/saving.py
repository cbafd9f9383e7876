"""Drafts become rows: secrets, launch profiles and connections. The one place that makes them of a draft."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction

from mcphub.features.importers import short_writes
from mcphub.features.importers.configured.drafts import Draft, DraftRefused, Filled, Needed, filled
from sessions_app.kit.names import free_name
from tools_catalog.bindings import CONNECTION, PROFILE, origin_of
from tools_catalog.models import LaunchProfile, McpConnection, Secret

_LONGEST_SLUG = 32
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A draft that somebody decided to save, under a name that is free."""

    draft: Draft
    slug: str
    values: Mapping[str, str] = field(default_factory=dict)
    has_network: bool = False
    readable: Sequence[str] | None = None
    """Paths that its program may read; None: those that the draft names."""
    writable: Sequence[str] | None = None


@dataclass(slots=True)
class Saved:
    """The outcome of saving drafts. With anything in `refused` nothing was saved."""

    connections: list[McpConnection] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Name of the connection, and why."""


class _Undone(Exception):
    """Rolls back a refused or trial save."""


def save(chosen: Sequence[Chosen], *, reason: str, dry_run: bool = False) -> Saved:
    """Make the rows of all of these or of none. With `dry_run` nothing is kept; refusals are reported.

    Each is tried first and undone, then all are saved, in short transactions: calls do not wait for a hundred servers.
    """
    tried = Saved(refused=_twice(chosen))
    short_writes.in_turns([partial(_try, each, reason, tried, is_kept=False) for each in chosen])
    if tried.refused or dry_run:
        return tried
    saved = Saved()
    short_writes.in_turns([partial(_try, each, reason, saved, is_kept=True) for each in chosen])
    if saved.refused:  # by what somebody else saved meanwhile
        short_writes.in_turns([partial(_take_back, row) for row in reversed(saved.connections)])
        saved.connections = []
    return saved


def _twice(chosen: Sequence[Chosen]) -> list[tuple[str, str]]:
    names = Counter(each.slug for each in chosen)
    return [
        (slug, "two of the servers have this name. Give one another.") for slug, count in names.items() if count > 1
    ]


def _try(chosen: Chosen, reason: str, report: Saved, *, is_kept: bool) -> None:
    """Create the rows of one server, or find the obstacles."""
    try:
        with suppress(_Undone), transaction.atomic():
            row = _save(chosen, reason)
            report.connections.append(row)
            if not is_kept:
                raise _Undone
    except DraftRefused as error:
        report.refused.append((chosen.slug, str(error)))
    except ValidationError as error:
        report.refused.append((chosen.slug, _told(error)))


def _take_back(row: McpConnection) -> None:
    profile = row.profile
    row.delete()
    if profile is not None:
        profile.delete()
    for secret in Secret.objects.filter(name__startswith=f"{row.slug}."):
        secret.delete()


def free_slugs(drafts: Sequence[Draft]) -> list[str]:
    """Name a connection in each draft: its own name, or with a number where that is taken."""
    taken = {
        *McpConnection.objects.values_list("slug", flat=True),
        *LaunchProfile.objects.values_list("name", flat=True),
    }
    # Secrets of a connection that is gone would be taken for those of the new one.
    taken |= {name.partition(".")[0] for name in Secret.objects.values_list("name", flat=True) if "." in name}
    found = []
    for draft in drafts:
        slug = free_name(draft.slug, taken.__contains__, _LONGEST_SLUG)
        taken.add(slug)
        found.append(slug)
    return found


def there_already(drafts: Sequence[Draft]) -> dict[str, str]:
    """Return the drafts that the hub has, by name, with the connection that reaches the same address or runs the
    same.
    """
    rows = list(McpConnection.objects.select_related("profile"))
    by_url = {row.url: row.slug for row in rows if row.url}
    by_words = {_words(row.profile): row.slug for row in rows if row.profile}
    found: dict[str, str] = {}
    for draft in drafts:
        try:
            made = filled(replace(draft, problem=""), {blank.name: "-" for blank in draft.missing})
        except DraftRefused:
            continue
        key = (made.command, made.arguments)
        there = by_words.get(key) if draft.runs_program else by_url.get(made.url)
        if there:
            found[draft.name] = there
    return found


def _words(profile: LaunchProfile) -> tuple[str, tuple[str, ...]]:
    return profile.command, tuple(profile.arguments) if isinstance(profile.arguments, list) else ()


def _save(chosen: Chosen, reason: str) -> McpConnection:
    made = filled(chosen.draft, chosen.values, chosen.slug)
    draft, slug = chosen.draft, chosen.slug
    if draft.runs_program:
        origin, users = f"{slug}{PROFILE}", ""
    else:
        _check_foreign(made.url)
        origin, users = _origin(made.url), f"{CONNECTION}:{slug}"
    for needed in made.secrets:
        _keep(needed, origin, users, reason)
    row = McpConnection(
        slug=slug, title=draft.title[:200], transport=draft.transport, url=made.url, headers=dict(made.headers)
    )
    row.enabled = draft.enabled
    if draft.runs_program:
        row.profile = _profile(chosen, made, reason)
    row.change_reason = reason
    row.full_clean()
    row.save()
    return row


def _profile(chosen: Chosen, made: Filled, reason: str) -> LaunchProfile:
    row = LaunchProfile(
        name=chosen.slug,
        command=made.command,
        arguments=list(made.arguments),
        environment=dict(made.environment),
        directory=made.directory,
        readable=list(made.readable if chosen.readable is None else chosen.readable),
        writable=list(made.writable if chosen.writable is None else chosen.writable),
        network=LaunchProfile.Network.OPEN if chosen.has_network else LaunchProfile.Network.NONE,
    )
    row.change_reason = reason
    row.full_clean()
    row.save()
    return row


def _keep(needed: Needed, origin: str, users: str, reason: str) -> None:
    row = Secret(name=needed.name, origins=origin, places=" ".join(needed.places), users=users)
    row.set_value(needed.value)
    row.change_reason = reason
    row.full_clean()
    row.save()


def _origin(url: str) -> str:
    try:
        return origin_of(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise DraftRefused(f"url: {url[:200]!r} is no address.") from error


def _check_foreign(url: str) -> None:
    """Refuse the hub itself: clients that use it already name it in their configuration."""
    public, there = urlsplit(settings.MCPHUB_PUBLIC_URL), _split(url)
    same_port = (public.port or public.scheme) == (there.port or there.scheme)
    both_local = public.hostname in _LOOPBACK and there.hostname in _LOOPBACK
    is_endpoint = re.match(r"/(mcp|sse)(/|\Z)", there.path) is not None
    if is_endpoint and same_port and (both_local or public.hostname == there.hostname):
        raise DraftRefused("it is this hub itself. Leave it out.")


def _split(url: str) -> Any:
    try:
        found = urlsplit(url)
        _ = found.port  # read when asked for, and then refused
    except ValueError as error:
        raise DraftRefused(f"url: {url[:200]!r} is no address.") from error
    return found


def _told(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return " ".join(
        " ".join(messages) if name == "__all__" else f"{name}: {' '.join(messages)}"
        for name, messages in error.message_dict.items()
    )
