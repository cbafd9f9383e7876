"""The check of an archive of objects, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.utils.translation import gettext as _

from mcphub.features.archive import places
from mcphub.process.doctor import Finding


def check() -> Iterator[Finding]:
    place = str(settings.MCPHUB_ARCHIVE_DIR)
    if "://" not in place:
        return
    try:
        with places.opened(place) as archive:
            archive.months()
    except OSError as error:
        yield Finding(
            "wrong",
            _("The archive %(place)s cannot be read: %(why)s.") % {"place": place, "why": error.strerror},
            _("Check MCPHUB_ARCHIVE_DIR, the AWS_ variables and MCPHUB_EGRESS_ALLOW."),
        )
        return
    try:
        is_kept = places.keeps_versions(place)
    except OSError:  # the key may read objects alone
        return
    if not is_kept:
        yield Finding(
            "hint",
            _("The archive's bucket keeps no versions: what is deleted there is named, and cannot be restored."),
            _("Turn on versioning, or object lock, for the bucket."),
        )
