"""The pages of the chat: conversations as transcripts, each question, and usage by caller."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Max, Model, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, Concat
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from invocations.admin.reading import RecordedReading, hidden_words, may_read_bodies
from mcphub.features.chat.admin.transcripts import page_of, transcript
from mcphub.features.chat.models.conversations import ChatSession, Query
from sessions_app.kit.admin.base import HubAdmin, mark, moment
from sessions_app.kit.admin.filters import MomentsControl
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.shown import cell, clipped, duration, json_block, mono, visible

_MARKS = {"running": "wait", "done": "good", "failed": "bad", "cancelled": "off", "interrupted": "bad"}
_CREATED = moment("created_at", _("created"))
_ACTIVE = moment("updated_at", _("last activity"))
_EXPIRES = moment("expires_at", _("expires"))
_ENDS = moment("ends_at", _("expires at the latest"))
_CLOSED = moment("closed_at", _("closed"))
_TIME = moment("timestamp", _("time"))
READ = "chat.read_conversations"
_RANGES = {"24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
_MOST_TURNS = 200
"""Of one conversation on a page, the newest."""


@admin.register(ChatSession)
class ChatSessionAdmin(RecordedReading):
    bodies = ("messages", "context")
    read_permissions = (READ,)
    list_display = ["shown_state", "shown_id", "shown_caller", "provider_preference", "turns", _CREATED, _ACTIVE]
    list_display_links = ["shown_id"]
    list_filter = [("updated_at", MomentsControl)]
    search_fields = ["=principal", "caller_label"]
    search_help_text = _("ID, caller or principal")
    ordering = ["-created_at"]
    is_windowed = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatSession]:
        of = Query.objects.filter(session=OuterRef("pk")).order_by().values("session")
        counted = of.annotate(count=Count("pk")).values("count")
        rows: QuerySet[ChatSession] = super().get_queryset(request).annotate(counted=Coalesce(Subquery(counted), 0))
        return rows

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        sections = [_transcript_for(request), "shown_context"] if self.may_read(request) else ["hidden"]
        return [
            (None, {"fields": ["shown_state", "shown_caller", "provider_preference", "max_messages"]}),
            (_t("Transcript"), {"fields": sections}),
            (_t("When"), {"fields": [_CREATED, _ACTIVE, _EXPIRES, _ENDS, _CLOSED]}),
            (_t("IDs"), {"fields": ["full_id", "principal"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    @admin.display(description=_("state"))
    def shown_state(self, session: ChatSession) -> SafeString:
        if session.turn_id is not None:
            return mark("wait", _t("Answers"))
        return mark("good", _t("Live")) if session.is_live(timezone.now()) else mark("off", _t("Ended"))

    @admin.display(description=_("conversation"))
    def shown_id(self, session: ChatSession) -> SafeString:
        return format_html('<span class="hub-mono hub-time" title="{}">{}…</span>', session.pk, str(session.pk)[:12])

    @admin.display(description=_("conversation"))
    def full_id(self, session: ChatSession) -> SafeString:
        return mono(str(session.pk))

    @admin.display(description=_("caller"))
    def shown_caller(self, session: ChatSession) -> SafeString:
        return cell(session.caller_label or session.principal)

    @admin.display(description=_("questions"))
    def turns(self, session: Any) -> int:
        return int(session.counted)

    @admin.display(description=_("transcript"))
    def shown_transcript(self, session: ChatSession) -> SafeString:
        return _told(_newest(session))

    @admin.display(description=_("transcript"))
    def bare_transcript(self, session: ChatSession) -> SafeString:
        return _told(_newest(session), with_bodies=False)

    @admin.display(description=_("context"))
    def shown_context(self, session: ChatSession) -> SafeString:
        return json_block(session.context, _t("context"))

    @admin.display(description=_("transcript"))
    def hidden(self, session: ChatSession) -> str:
        return _t("The messages are hidden: your account can't read conversations.")


class QuestionSearch(ListPart):
    """An ID in the search leads straight to its page, as the audit's links do; and the link to usage by caller."""

    def instead(self, page: HubAdmin, request: HttpRequest) -> HttpResponse | None:
        found = page_of(request.GET.get("q", "").strip()) if page.has_view_permission(request) else ""
        return redirect(found) if found else None

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        return {"usage_link": reverse("admin:chat_usage")}


@admin.register(Query)
class QueryAdmin(RecordedReading):
    parts = (*RecordedReading.parts, QuestionSearch())
    bodies = ("messages", "metadata")
    body_columns: ClassVar[dict[str, str]] = {"shown_question": "content"}
    read_permissions = (READ,)
    list_display = ["shown_time", "shown_state", "shown_question", "shown_caller", "shown_model", "tokens", "took"]
    list_display_links = ["shown_time"]
    list_filter = [
        ("timestamp", MomentsControl),
        ("state", ChoicesDropdownFilter),
        ("entry_point", ChoicesDropdownFilter),
    ]
    search_fields = ["=principal", "caller_label"]
    search_help_text = _("ID, caller or principal")
    ordering = ["-timestamp"]
    is_windowed = True
    list_fullwidth = True
    list_before_template = "admin/hub/usage_link.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Query]:
        return super().get_queryset(request).select_related("response")

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        sections, more = (
            ([_transcript_for(request)], ["shown_metadata"]) if self.may_read(request) else (["hidden"], [])
        )
        return [
            (None, {"fields": ["shown_state", "error_code", "shown_caller", "conversation"]}),
            (_t("Transcript"), {"fields": sections}),
            (_t("Answer"), {"fields": ["shown_model", "tokens", "took", "finish", "calls", "shown_rounds"]}),
            (_t("IDs"), {"fields": ["full_id", "principal", "provider", "shown_entry_point", *more]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    @admin.display(description=_("time"))
    def shown_time(self, query: Query) -> SafeString:
        when = timezone.localtime(query.timestamp)
        return format_html(
            '<time class="hub-time" datetime="{}" title="{}">{}</time>',
            when.isoformat(),
            when.isoformat(),
            when.strftime("%m-%d %H:%M:%S"),
        )

    @admin.display(description=_("state"))
    def shown_state(self, query: Query) -> SafeString:
        return mark(_MARKS[query.state], query.get_state_display())

    @admin.display(description=_("question"))
    def shown_question(self, query: Query) -> SafeString:
        return cell(query.content)

    @admin.display(description=_("caller"))
    def shown_caller(self, query: Query) -> SafeString:
        return cell(query.caller_label or query.principal)

    @admin.display(description=_("model"))
    def shown_model(self, query: Query) -> SafeString | str:
        answer = _answer(query)
        return cell(f"{answer.provider_used}/{answer.model}") if answer else "-"

    @admin.display(description=_("tokens used"))
    def tokens(self, query: Query) -> SafeString | str:
        answer = _answer(query)
        if not answer or not answer.usage:
            return "-"
        return format_html(
            '<span class="hub-time" title="{}">{} + {}</span>',
            _t("input + output"),
            answer.prompt_tokens,
            answer.completion_tokens,
        )

    @admin.display(description=_("duration"))
    def took(self, query: Query) -> SafeString | str:
        answer = _answer(query)
        return format_html('<span class="hub-time">{}</span>', duration(answer.duration_ms)) if answer else "-"

    @admin.display(description=_("entry point"))
    def shown_entry_point(self, query: Query) -> str:
        return query.get_entry_point_display()

    @admin.display(description=_("finish reason"))
    def finish(self, query: Query) -> str:
        answer = _answer(query)
        return " · ".join(filter(None, (answer.finish_reason, answer.stop_reason))) if answer else "-"

    @admin.display(description=_("rounds"))
    def shown_rounds(self, query: Query) -> SafeString | str:
        answer = _answer(query)
        return json_block(answer.rounds, _t("rounds")) if answer else "-"

    @admin.display(description=_("metadata"))
    def shown_metadata(self, query: Query) -> SafeString:
        return json_block(query.metadata, _t("metadata"))

    @admin.display(description=_("query"))
    def full_id(self, query: Query) -> SafeString:
        return mono(str(query.pk))

    @admin.display(description=_("conversation"))
    def conversation(self, query: Query) -> SafeString | str:
        if query.session_id is None:
            return "-"
        address = reverse("admin:chat_chatsession_change", args=[query.session_id])
        return format_html('<a class="hub-link hub-mono" href="{}">{}</a>', address, query.session_id)

    @admin.display(description=_("tool calls"))
    def calls(self, query: Query) -> SafeString:
        address = reverse("admin:invocations_mcptoolinvocation_changelist")
        return format_html(
            '<a class="hub-link" href="{}?{}">{}</a>',
            address,
            urlencode({"turn_id__exact": query.pk}),
            _t("Calls of this question"),
        )

    @admin.display(description=_("transcript"))
    def shown_transcript(self, query: Query) -> SafeString:
        return _told([query])

    @admin.display(description=_("transcript"))
    def bare_transcript(self, query: Query) -> SafeString:
        return _told([query], with_bodies=False)

    @admin.display(description=_("transcript"))
    def hidden(self, query: Query) -> str:
        return _t("The messages are hidden: your account can't read conversations.")

    # What callers used -----------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        return [path("usage/", self.admin_site.admin_view(self.usage_view), name="chat_usage"), *super().get_urls()]

    def usage_view(self, request: HttpRequest) -> HttpResponse:
        """Show each caller's requests and usage in a time range."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        chosen = request.GET.get("range", "24h")
        chosen = chosen if chosen in _RANGES else "24h"
        rows = list(usage_by_caller(timezone.now() - _RANGES[chosen])[:500])
        for row in rows:
            row["caller"] = clipped(row["label"] or row["principal"], 80)
            row["total"] = (row["read"] or 0) + (row["written"] or 0)
        words = {"24h": _t("24 hours"), "7d": _t("7 days"), "30d": _t("30 days")}
        context = {
            **self.admin_site.each_context(request),
            "opts": Query._meta,
            "title": _t("Usage by caller"),
            "rows": rows,
            "ranges": [(name, words[name], name == chosen) for name in _RANGES],
        }
        return TemplateResponse(request, "admin/hub/usage.html", context)


def usage_by_caller(since: datetime) -> Any:
    """Return each caller's requests and usage since a moment, most tokens first."""
    # Grouped by what no index is in the order of: SQLite would read all queries there are, rather than sort these.
    return (
        Query.objects.filter(timestamp__gte=since)
        .annotate(caller=Concat("principal", Value("")))
        .values("caller")
        .annotate(
            principal=Max("principal"),
            label=Max("caller_label"),
            asked=Count("pk"),
            failed=Count("pk", filter=~Q(state__in=[Query.State.DONE, Query.State.RUNNING])),
            read=Sum("response__prompt_tokens"),
            written=Sum("response__completion_tokens"),
            untold=Count("response", filter=Q(response__prompt_tokens=None)),
            longest=Max("response__duration_ms"),
        )
        .order_by(F("read").desc(nulls_last=True), "caller")
    )


def _answer(query: Query) -> Any:
    return getattr(query, "response", None)


def _transcript_for(request: HttpRequest) -> str:
    return "shown_transcript" if may_read_bodies(request) else "bare_transcript"


def _newest(session: ChatSession) -> list[Query]:
    newest = session.queries.select_related("response").order_by("-timestamp")[:_MOST_TURNS]
    return list(reversed(newest))


def _told(queries: list[Query], *, with_bodies: bool = True) -> SafeString:
    """`with_bodies`: arguments and results of the calls too."""
    turns = [
        {
            "query": query,
            "mark": mark(_MARKS[query.state], query.get_state_display()),
            "entries": entries,
            "answer": _answer(query),
            "took": duration(_answer(query).duration_ms) if _answer(query) else "",
            "model": visible(f"{_answer(query).provider_used}/{_answer(query).model}") if _answer(query) else "",
        }
        for query, entries in transcript(queries)
    ]
    hidden = "" if with_bodies else hidden_words()
    return render_to_string("admin/hub/transcript.html", {"turns": turns, "hidden": hidden})
