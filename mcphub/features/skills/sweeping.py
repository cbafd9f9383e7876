"""Deletes contents that no version of a skill has any more."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from mcphub.features.skills.models import SkillContent

_SLICE = 100
_KEPT_FOR = timedelta(hours=1)
"""A request that began before its skill changed may still read them."""


def purge() -> None:
    old = SkillContent.objects.filter(files=None, kept_at__lte=timezone.now() - _KEPT_FOR)
    while digests := list(old.values_list("pk", flat=True)[:_SLICE]):
        SkillContent.objects.filter(pk__in=digests, files=None).delete()
