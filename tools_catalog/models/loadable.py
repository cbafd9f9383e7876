"""Rows that bundles load: they follow their bundle until somebody else edits them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from sessions_app.history.guarding import GuardedModel

SHIPPED = "shipped with the hub"


class LoadableModel(GuardedModel):
    """A row that remembers which load wrote it as it is, longer than retention keeps the event of it."""

    loaded_by = models.CharField(max_length=200, blank=True, editable=False)
    """The reason of the load, or `SHIPPED`; empty once anybody else edited the row."""

    UNRECORDED: ClassVar[tuple[str, ...]] = ("loaded_by",)
    loading: str = ""
    """Set by a load while it writes the row."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.loaded_by = self.loading[:200]
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "loaded_by"}
        super().save(*args, **kwargs)

    def links_changed(self) -> None:
        if self.loaded_by and not self.loading:
            self.loaded_by = ""
            type(self)._base_manager.filter(pk=self.pk).update(loaded_by="")

    def came_by(self, reason: str) -> bool:
        """Return whether nobody changed the row since a load of this reason did."""
        return self.loaded_by == reason[:200]
