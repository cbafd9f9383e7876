"""Accounts and groups kept by a directory, and its IDs for them."""

from __future__ import annotations

from django.contrib.auth.models import Group, User
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.recording import RecordedModel


class _Provisioned(RecordedModel):
    external_id = models.CharField(_("directory ID"), max_length=255, blank=True)
    is_made_here = models.BooleanField(_("created by the directory"), default=False)
    """Whether it began with the directory. Others were here before, and are not the directory's to rename or remove."""
    made_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    removed_at = models.DateTimeField(_("removed"), null=True, blank=True)
    """When the directory removed it. The row of the account or group stays: calls name it, and tools ask for it."""

    class Meta:
        abstract = True


class ProvisionedPerson(_Provisioned):
    """An account that a directory made or took over."""

    RECORDED_AS = "provisioned_person"

    user = models.OneToOneField(User, models.CASCADE, related_name="provisioned", verbose_name=_("person"))

    class Meta:
        verbose_name = _("directory person")
        verbose_name_plural = _("directory people")
        default_permissions = ()
        indexes = [models.Index(fields=["external_id"], condition=~Q(external_id=""), name="scim_person_external")]

    def __str__(self) -> str:
        return str(self.user)


class ProvisionedGroup(_Provisioned):
    """A group that a directory made, or fills for a key that has it."""

    RECORDED_AS = "provisioned_group"

    group = models.OneToOneField(Group, models.CASCADE, related_name="provisioned", verbose_name=_("group"))

    class Meta:
        verbose_name = _("directory group")
        verbose_name_plural = _("directory groups")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.group)
