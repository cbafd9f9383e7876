"""The quotas that count the person and their keys: usage, and reset time."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from mcphub.features.quotas import amounts, usage
from mcphub.features.quotas.quota import ALL
from mcphub.features.quotas.usage import QuotaUse
from mcphub.my_access.parts import Part
from sessions_app.kit.shown import clipped


def _rows(request: HttpRequest) -> Mapping[str, object]:
    assert request.user.is_authenticated
    own = f"user:{request.user.pk}"
    return {"quotas": [_line(use, own) for use in usage.of_person(request.user)]}


def _line(use: QuotaUse, own: str) -> dict[str, object]:
    return {
        "name": use.quota,
        "words": use.words,
        "subject": _counted_for(use, own),
        "used": amounts.shown(use.used, use.unit),
        "limit": amounts.shown(use.limit, use.unit),
        "remarks": ", ".join(amounts.remarks(use.estimated, use.unpriced, use.unit)),
        "meter": min(100, use.share),
        "state": use.state,
        "is_soft": use.hard is None,
        "ends_at": timezone.localtime(use.ends_at),
    }


def _counted_for(use: QuotaUse, own: str) -> str:
    if use.subject in (own, ALL):
        return _("you") if use.subject == own else _("everybody together")
    words = _("your key %(name)s") if use.subject.startswith("key:") else _("your group %(name)s")
    return words % {"name": clipped(use.label or use.subject, 90)}


PART = Part("quotas", "me/quotas.html", _rows)
