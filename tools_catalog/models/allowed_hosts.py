"""Hosts outside the public internet that the hub may reach, as operators list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel
from tools_catalog.egress import listed

MOST_HOSTS = 500
"""Of a hub; each request to a private address looks through them."""


class AllowedHost(GuardedModel):
    """One entry: a host, an address or a network, with or without a port."""

    RECORDED_AS = "allowed_host"
    GUARDED: ClassVar[Mapping[str, Any]] = {"enabled": False}
    JUDGED_BY = ("host",)

    host = models.CharField(
        _("host"),
        max_length=255,
        unique=True,
        help_text=_(
            "Such as tickets.example.internal, *.example.internal, 10.0.3.7:8443, 10.0.0.0/8 or [fd00::7]:8443. "
            "Metadata addresses of clouds stay closed."
        ),
    )
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("A second person confirms it. Disabling takes effect at once.")
    )
    note = models.CharField(_("note"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("allowed host")
        verbose_name_plural = _("allowed hosts")
        ordering = ["host"]
        constraints = [models.CheckConstraint(condition=~Q(host=""), name="allowed_host_present")]

    def __str__(self) -> str:
        return self.host

    def clean(self) -> None:
        self.host = self.host.strip().lower()
        try:
            listed.check(self.host)
        except ValueError as error:
            raise ValidationError(
                {"host": _("%(host)s isn't a host, an address or a network.") % {"host": self.host}}
            ) from error
        if self._state.adding and type(self)._default_manager.count() >= MOST_HOSTS:
            raise ValidationError(
                {"host": _("The list has %(most)d hosts, the maximum. Delete one first.") % {"most": MOST_HOSTS}}
            )


def read_allowed_hosts() -> None:
    """Put the stored list in force in this process."""
    listed.replace(AllowedHost.objects.filter(enabled=True).order_by("host").values_list("host", flat=True))
