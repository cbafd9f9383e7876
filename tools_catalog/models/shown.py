"""Upstream offers by account, where lists depend on the user: names and digests, no definitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText
from sessions_app.protocol import json
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.sights import Shown, Sights


class ShownOffers(models.Model):
    """One list that a connection's upstream showed to somebody. Accounts with equal lists share the row."""

    connection = models.ForeignKey(McpConnection, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    content = JSONText(default=dict)
    """Kind -> name there -> the digest of the definition, and that of its schemas."""

    class Meta:
        verbose_name = _("list of an upstream")
        verbose_name_plural = _("lists of upstreams")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["connection", "digest"], name="shown_offers_once")]

    def __str__(self) -> str:
        return f"{self.connection_id} {self.digest[:12]}"


class PersonalListQuerySet(models.QuerySet["PersonalList"]):
    def note(self, connection: McpConnection, principal: str, content: dict[str, Any]) -> bool:
        """Store the list seen by an account, other kinds as before; return whether anything differs."""
        before = self.filter(connection=connection, principal=principal).select_related("shown").first()
        content = {**(before.shown.content if before is not None else {}), **content}
        digest = json.digest(json.canonical(content))
        shown, _made = ShownOffers.objects.get_or_create(
            connection=connection, digest=digest, defaults={"content": content}
        )
        now: datetime = timezone.now()
        self.update_or_create(connection=connection, principal=principal, defaults={"shown": shown, "listed_at": now})
        ShownOffers.objects.filter(connection=connection, lists=None).delete()
        return before is None or before.shown_id != shown.pk

    def is_fresh(self, connection_id: int, principal: str, seconds: float) -> bool:
        """Return whether lists were read with this account within so many seconds."""
        since = timezone.now() - timedelta(seconds=seconds)
        return self.filter(connection=connection_id, principal=principal, listed_at__gt=since).exists()

    def forget(self, connection_id: int, principal: str) -> bool:
        """Delete the list of an account that ended or changed; return whether there was one."""
        return bool(self.filter(connection=connection_id, principal=principal).delete()[0])


class PersonalList(models.Model):
    """Which list a connection's upstream showed to one account last; the empty principal is that of all."""

    connection = models.ForeignKey(McpConnection, models.CASCADE, related_name="personal_lists")
    principal = models.CharField(max_length=64, blank=True)
    shown = models.ForeignKey(ShownOffers, models.CASCADE, related_name="lists")
    listed_at = models.DateTimeField(_("listed"))

    objects = PersonalListQuerySet.as_manager()

    class Meta:
        verbose_name = _("list read for a person")
        verbose_name_plural = _("lists read for persons")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["connection", "principal"], name="personal_list_once")]

    def __str__(self) -> str:
        return f"{self.connection_id} {self.principal}"


def read_sights() -> dict[int, Sights]:
    """Read the visibility, by connection ID; query only for connections with such lists."""
    rows = PersonalList.objects.exclude(principal="").filter(connection__lists_per_person=True)
    lists = list(rows.values_list("connection_id", "principal", "shown_id"))
    contents = {
        row.pk: {
            (kind, name): Shown(*digests) for kind, listed in row.content.items() for name, digests in listed.items()
        }
        for row in ShownOffers.objects.filter(pk__in={shown for _connection, _principal, shown in lists})
    }
    found: dict[int, dict[str, Mapping[tuple[str, str], Shown]]] = {}
    for connection, principal, shown in lists:
        if shown in contents:
            found.setdefault(connection, {})[principal] = contents[shown]
    return dict(found)
