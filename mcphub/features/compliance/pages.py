"""The page of evidence: a period, the files of its archive, and these, signed and streamed while it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone, translation
from django.utils.formats import number_format
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminSingleDateWidget

from invocations.admin.reading import may_read_bodies
from invocations.chain import service
from invocations.chain.keys import KeyProblem
from invocations.rest.exports import ExportPipe
from mcphub.features.compliance import evidence, report
from sessions_app.history import events
from sessions_app.models import McpWorkspace
from sessions_app.workspaces.acting import PAGES
from sessions_app.workspaces.scope import Scope, acting_in, current

PAGES.add("evidence")

_MOST_COUNTED: Final = 1000
_UNCOUNTED: Final = frozenset({"tools.jsonl", "callers.jsonl", "refused.jsonl"})
"""Read from all calls of the period: counted only while they are written."""
_OF_THE_HUB: Final = "invocations.view_auditblock"


class PeriodForm(forms.Form):
    since = forms.DateField(label=_("From"), widget=UnfoldAdminSingleDateWidget)
    until = forms.DateField(
        label=_("Until"), widget=UnfoldAdminSingleDateWidget, help_text=_("The first day after the period, in UTC.")
    )
    workspace = forms.ModelChoiceField(
        label=_("Workspace"),
        queryset=McpWorkspace.objects.all(),
        required=False,
        to_field_name="slug",
        empty_label=_("The whole hub"),
        widget=UnfoldAdminSelectWidget,
    )
    language = forms.ChoiceField(
        label=_("Language of the report"), choices=settings.LANGUAGES, widget=UnfoldAdminSelectWidget
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if current() is not None:
            del self.fields["workspace"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "since" in cleaned and "until" in cleaned and cleaned["since"] >= cleaned["until"]:
            self.add_error("until", _t("Enter a day after the first one."))
        return cleaned

    @property
    def period(self) -> evidence.Period:
        given, scope = self.cleaned_data, current()
        if scope is None and (row := given.get("workspace")) is not None:
            scope = Scope(row.pk, row.slug)
        since, until = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (given["since"], given["until"]))
        return evidence.Period(since, until, scope)


def evidence_view(request: HttpRequest) -> HttpResponseBase:
    if not may_read_bodies(request) or (current() is None and not request.user.has_perm(_OF_THE_HUB)):
        raise PermissionDenied
    today = timezone.now().date()
    first = {"since": today - timedelta(days=90), "until": today, "language": (translation.get_language() or "en")[:2]}
    form = PeriodForm(request.POST if request.method == "POST" else None, initial=first)
    problem, is_asked = "", request.method == "POST" and form.is_valid()
    if is_asked and "download" in request.POST:
        try:
            return _archive(request, form)
        except KeyProblem as error:
            problem = str(error)
        except DatabaseError:
            problem = _t("The archive could not be recorded in the audit log, so no file was created. Try again.")
    context = {
        **admin.site.each_context(request),
        "title": _t("Evidence"),
        "form": form,
        "problem": problem,
        "files": _counted(form.period) if is_asked else [],
        "within": current(),
    }
    return TemplateResponse(request, "compliance/evidence.html", context, status=503 if problem else 200)


def _counted(period: evidence.Period) -> list[dict[str, str]]:
    """Return each file with its number of lines, which is counted up to a bound."""
    with acting_in(period.scope):
        lines, titles = evidence.contents(period), report.titles()
        return [
            {"name": name, "title": title, "count": "" if name in _UNCOUNTED else _count(lines[name])}
            for name, title in titles.items()
        ]


def _count(lines: Any) -> str:
    count = sum(1 for _line in islice(lines, _MOST_COUNTED + 1))
    return number_format(min(count, _MOST_COUNTED)) + ("+" if count > _MOST_COUNTED else "")


def _archive(request: HttpRequest, form: PeriodForm) -> HttpResponse | StreamingHttpResponse:
    """Return the archive, written on a thread while it is sent. It is on record. Raises KeyProblem, DatabaseError."""
    period, language, signer = form.period, form.cleaned_data["language"], service.keys().signer()
    slug = period.scope.slug if period.scope is not None else None
    after = {"from": period.since.isoformat(), "until": period.until.isoformat(), "workspace": slug}
    events.record("audit.evidence", actor=events.actor_of(request.user), label=request.path, after=after)

    def write(out: Any) -> None:
        try:
            evidence.write_into(out, period, signer, language)
        finally:
            connection.close()  # this thread's own

    answer = StreamingHttpResponse(ExportPipe(write).chunks(), content_type="application/zip")
    name = f"evidence-{period.since:%Y-%m-%d}-{period.until:%Y-%m-%d}{f'-{slug}' if slug else ''}.zip"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "no-store"
    return answer


urlpatterns = [path("evidence/", admin.site.admin_view(evidence_view), name="evidence")]
