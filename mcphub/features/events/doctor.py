"""Checks of events of upstreams, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from mcphub.features.events.models import EventSource, UpstreamEvent
from mcphub.process.doctor import Finding


def check() -> Iterator[Finding]:
    for source in EventSource.objects.filter(connection__enabled=True).exclude(problem="").select_related("connection"):
        yield Finding(
            "hint",
            _("Not all events of %(connection)s are offered: %(why)s")
            % {"connection": source.connection.slug, "why": source.problem},
            _("Ask whoever runs the upstream to change its list."),
        )
    for row in UpstreamEvent.objects.served():
        if not row.trouble:
            continue
        remedy = _("The hub tries it again. `mcphub event stop %(name)s` ends it.")
        if row.misfit:
            remedy = _(
                "The upstream now expects different arguments: `mcphub event approve %(name)s --arguments JSON`."
            )
        yield Finding(
            "wrong",
            _("The upstream event %(name)s is not received: %(why)s") % {"name": row.name, "why": row.trouble},
            remedy % {"name": row.name},
        )
