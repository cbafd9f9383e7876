"""How people look at the lists of the admin: the views that they saved, and the columns that they chose."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText


class SavedView(models.Model):
    """A list as somebody saw it: filters, search, order and columns, under a name."""

    page = models.CharField(max_length=100)
    """Of which list: the label of its model, in small letters."""
    name = models.CharField(_("name"), max_length=60)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views")
    is_shared = models.BooleanField(_("shared"), default=False)
    query = models.TextField(blank=True)
    """The part of the list's address after the question mark."""

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ["name", "id"]
        default_permissions = ()
        permissions = [("share_savedview", _("Can share list views with everybody"))]
        constraints = [
            models.UniqueConstraint(fields=["owner", "page", "name"], name="saved_view_named_once"),
            models.CheckConstraint(condition=~Q(name=""), name="saved_view_has_name"),
        ]
        indexes = [models.Index(fields=["page", "name", "id"], name="saved_view_by_page")]  # above a list, in its order

    def __str__(self) -> str:
        return self.name


class ListColumns(models.Model):
    """A person's columns for a list whose address names none."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="list_columns")
    page = models.CharField(max_length=100)
    columns = JSONText(default=list)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["owner", "page"], name="list_columns_once")]

    def __str__(self) -> str:
        return f"{self.page} {', '.join(self.columns)}"
