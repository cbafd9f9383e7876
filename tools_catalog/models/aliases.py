"""Former names of tools and prompts, which still lead to them for some days."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _


class McpAliasQuerySet(models.QuerySet["McpAlias"]):
    def live(self) -> McpAliasQuerySet:
        return self.filter(expires_at__gt=timezone.now())

    def leave(self, former: str, row: models.Model) -> None:
        """Let the former name of a renamed tool or prompt lead to it. A name that it has again is no alias."""
        field = _field(row)
        self.filter(**{field: row, "name": getattr(row, "name", "")}).delete()
        self.filter(**{f"{field}__isnull": False, "name": former}).delete()
        if settings.MCPHUB_ALIAS_DAYS:
            until = timezone.now() + timedelta(days=settings.MCPHUB_ALIAS_DAYS)
            self.create(**{field: row, "name": former, "expires_at": until})

    def give_up(self, name: str, row: models.Model) -> None:
        """Let a former name go, as a tool or prompt that comes with a bundle has it."""
        self.filter(**{f"{_field(row)}__isnull": False, "name": name}).delete()

    def refusal_of(self, row: models.Model, name: str) -> str:
        """Return the reason if a tool or prompt may not have the name; empty unless it is another's alias."""
        field = _field(row)
        others = self.live().filter(**{f"{field}__isnull": False, "name": name}).exclude(**{field: row.pk or 0})
        other = others.select_related(field).first()
        if other is None:
            return ""
        return _t("%(name)s still refers to %(other)s, its former name, until %(until)s. Choose another name.") % {
            "name": name,
            "other": other.leads_to,
            "until": date_format(timezone.localtime(other.expires_at), "DATE_FORMAT"),
        }


class McpAlias(models.Model):
    """A name that a tool or prompt had. Calls by it are made, lists do not show it."""

    name = models.CharField(_("name"), max_length=64)
    tool = models.ForeignKey(
        "tools_catalog.McpToolDefinition", models.CASCADE, null=True, related_name="aliases", verbose_name=_("tool")
    )
    prompt = models.ForeignKey(
        "tools_catalog.McpPrompt", models.CASCADE, null=True, related_name="aliases", verbose_name=_("prompt")
    )
    created_at = models.DateTimeField(_("renamed"), default=timezone.now)
    expires_at = models.DateTimeField(_("valid until"), db_index=True)

    objects = McpAliasQuerySet.as_manager()

    class Meta:
        verbose_name = _("former name")
        verbose_name_plural = _("former names")
        ordering = ["name"]
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                condition=Q(tool__isnull=False, prompt__isnull=True) | Q(tool__isnull=True, prompt__isnull=False),
                name="alias_of_one",
            ),
            models.UniqueConstraint(fields=["name"], condition=Q(tool__isnull=False), name="alias_leads_to_one_tool"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(prompt__isnull=False), name="alias_leads_to_one_prompt"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def leads_to(self) -> str:
        row: Any = self.tool or self.prompt
        return str(row.name)


def purge() -> int:
    """Delete the expired aliases; return the number."""
    over = McpAlias.objects.filter(expires_at__lte=timezone.now())
    return over.delete()[0] if over.exists() else 0  # PostgreSQL announces a statement that removes nothing, too


def _field(row: models.Model) -> str:
    return "prompt" if row._meta.model_name == "mcpprompt" else "tool"
