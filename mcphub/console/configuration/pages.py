"""The page of the effective configuration, and the page of diagnostics: what `mcphub doctor` finds, in this process."""

from __future__ import annotations

import threading
from typing import Final

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from mcphub.console.configuration import reading

PERMISSION: Final = "sessions_app.view_settings"
_ONE_AT_A_TIME: Final = threading.Lock()
_PATIENCE_SECONDS: Final = 10.0


@require_safe
def settings_view(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    workers, features, only_changed = reading.workers(), reading.features(), request.GET.get("show") == "changed"
    sections = reading.sections(request)
    changed = sum(each.changed for each in sections) + sum(row.is_changed for row in features)
    if only_changed:
        sections = [each.only_changed() for each in sections if each.changed]
        features = [row for row in features if row.is_changed]
    context = {
        **admin.site.each_context(request),
        "title": _("Settings"),
        "sections": sections,
        "features": features,
        "changed": changed,
        "only_changed": only_changed,
        "workers": workers,
        "is_mixed": any(each.is_other_version for each in workers),
        "versions": reading.versions(),
        "disk": reading.disk(),
        "former": settings.MCPHUB_LIMITS.former,
        "former_line": f'MCPHUB_LIMITS="{settings.MCPHUB_LIMITS.line()}"',
    }
    return _uncached(TemplateResponse(request, "admin/hub/settings.html", context))


@require_safe
def diagnostics_view(request: HttpRequest) -> HttpResponse:
    """Examine the installation now. One examination runs at a time in a process; others wait for their turn."""
    from mcphub.process.doctor import examine

    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    context = {**admin.site.each_context(request), "title": _("Diagnostics")}
    if not _ONE_AT_A_TIME.acquire(timeout=_PATIENCE_SECONDS):
        return _uncached(TemplateResponse(request, "admin/hub/diagnostics.html", context, status=503))
    try:
        subjects = list(examine())
    finally:
        _ONE_AT_A_TIME.release()
    levels = [finding.level for _subject, findings in subjects for finding in findings]
    found = [(subject, finding) for subject, findings in subjects for finding in findings]
    context |= {
        "is_done": True,
        "found": sorted(found, key=lambda each: each[1].level != "wrong"),
        "in_order": [subject for subject, findings in subjects if not findings],
        "wrong": levels.count("wrong"),
        "hints": levels.count("hint"),
    }
    return _uncached(TemplateResponse(request, "admin/hub/diagnostics.html", context))


def _uncached(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    return response


urlpatterns = [
    path("settings/", admin.site.admin_view(settings_view), name="hub-settings"),
    path("diagnostics/", admin.site.admin_view(diagnostics_view), name="hub-diagnostics"),
]
