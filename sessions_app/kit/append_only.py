"""The base of models whose rows are evidence: added, and then neither changed nor deleted by the application."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Refuses to change recorded rows; retention is a named command."""

    def update(self, **kwargs: object) -> int:
        raise ValidationError(_("Call records can't be changed."))

    def delete(self) -> tuple[int, dict[str, int]]:
        raise ValidationError(_("Call records can't be deleted."))


class AppendOnly(models.Model):
    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise ValidationError(_("Call records can't be changed."))
        super().save(*args, **kwargs)

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        raise ValidationError(_("Call records can't be deleted."))
