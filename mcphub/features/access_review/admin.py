"""The pages of access reviews: one is added to start it; its grants are a list with decisions about selected rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from mcphub.features.access_review import deciding
from mcphub.features.access_review.filters import PAGE_FILTERS, REVIEW_FILTERS
from mcphub.features.access_review.models import AccessReview, ReviewedGrant, refuse_reviewers
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import ReadOnlyAdmin, detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, pretty
from sessions_app.workspaces.models import McpWorkspace
from sessions_app.workspaces.pages import WorkspacePages
from sessions_app.workspaces.scope import current

if TYPE_CHECKING:
    _Form = forms.ModelForm[AccessReview]
else:
    _Form = forms.ModelForm

_DUE, _STARTED, _CLOSED = (
    moment("due_at", _("due")),
    moment("started_at", _("started")),
    moment("closed_at", _("closed")),
)
_USED, _DECIDED = moment("last_used_at", _("last used")), moment("decided_at", _("decided"))
_STATES = {"open": ("wait", _("Open")), "overdue": ("bad", _("Overdue")), "closed": ("off", _("Closed"))}
_DECISIONS = {
    "undecided": ("wait", _("Undecided")),
    "overdue": ("bad", _("Overdue")),
    "keep": ("good", _("Kept")),
    "take_away": ("off", _("Taken away")),
}


def _possible_reviewers() -> QuerySet[User]:
    """Return the people who may decide: those with the permission, in a workspace its auditors and operators."""
    scope = current()
    if scope is None:
        able: QuerySet[User] = User.objects.with_perm(
            "access_review.decide_accessreview", backend="django.contrib.auth.backends.ModelBackend"
        )
        return able.order_by("username")
    row = McpWorkspace.objects.get(pk=scope.workspace)
    groups = {*row.auditors.values_list("pk", flat=True), *row.operators.values_list("pk", flat=True)}
    return User.objects.filter(is_active=True, groups__in=groups).distinct().order_by("username")


class AccessReviewForm(_Form):
    reviewers = forms.ModelMultipleChoiceField(
        label=_("Reviewers"),
        queryset=User.objects.none(),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("People with the right to decide about access. Nobody decides about their own."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "workspace" in self.fields:
            self.fields["workspace"].help_text = _("Reviews this workspace's people and keys. Leave blank for all.")
        if "reviewers" in self.fields:
            self.fields["reviewers"].queryset = _possible_reviewers()  # type: ignore[attr-defined]  # a field of choices

    def clean_reviewers(self) -> Any:
        chosen = self.cleaned_data["reviewers"]
        scope = current()
        try:
            refuse_reviewers(chosen, None if scope is None else scope.workspace)
        except ValidationError as error:
            raise ValidationError(error.messages) from None
        return chosen


@admin.register(AccessReview)
class AccessReviewAdmin(WorkspacePages, RecordedAdmin):
    form = AccessReviewForm
    workspace_pages = ("changelist", "add", "change", "history", "history_entry", "decide", "close")
    list_display = ["name", "shown_state", "shown_scope", "shown_progress", _DUE, _STARTED, "started_by"]
    list_select_related = ["workspace", "group"]
    filters = REVIEW_FILTERS
    search_fields = ["name"]
    search_help_text = _("Name")
    actions = None
    actions_detail = ["decide", "close"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["name", "shown_state", "shown_scope", "shown_progress", "shown_left"]}),
        (_("Due date and reviewers"), {"fields": ["due_at", "reviewers"]}),
        (_("Times"), {"fields": [_STARTED, "started_by", _CLOSED, "closed_by"]}),
    ]
    readonly_fields = [
        *("name", "shown_state", "shown_scope", "shown_progress", "shown_left"),
        *(_STARTED, "started_by", _CLOSED, "closed_by"),
    ]

    @admin.display(description=_("state"))
    def shown_state(self, row: AccessReview) -> SafeString:
        return mark(*_STATES[row.state])

    @admin.display(description=_("reviews"))
    def shown_scope(self, row: AccessReview) -> str:
        parts = [
            _t("workspace %(name)s") % {"name": row.workspace.slug} if row.workspace else "",
            _t("group %(name)s") % {"name": row.group.name} if row.group else "",
            _t("tools %(names)s") % {"names": row.tools} if row.tools else "",
        ]
        return clipped(", ".join(filter(None, parts)) or _t("everybody"), 120)

    @admin.display(description=_("decided"))
    def shown_progress(self, row: Any) -> str:
        return _t("%(decided)d of %(all)d: %(kept)d kept, %(taken)d taken away") % {
            "decided": row.kept_count + row.taken_count,
            "all": row.row_count,
            "kept": row.kept_count,
            "taken": row.taken_count,
        }

    @admin.display(description=_("undecided"))
    def shown_left(self, row: Any) -> SafeString:
        unused = row.rows.undecided().filter(is_unused=True).count()
        return format_html(
            '<a href="{}">{}</a> · <a href="{}">{}</a>',
            _rows_of(row, "decision=undecided"),
            ngettext("%(count)d grant", "%(count)d grants", row.undecided_count) % {"count": row.undecided_count},
            _rows_of(row, "decision=undecided&is_unused=yes"),
            _t("%(count)d unused for 90 days") % {"count": unused},
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessReview]:
        rows: QuerySet[AccessReview] = AccessReview.objects.counted()
        return rows.order_by("-started_at", "-pk")

    def get_fieldsets(self, request: HttpRequest, obj: AccessReview | None = None) -> Any:
        if obj is not None:
            return super().get_fieldsets(request, obj)
        asked = ["name", "workspace", "group", "tools", "due_at", "reviewers"]
        if current() is not None:  # names of the whole hub's groups stay outside
            asked = [name for name in asked if name not in ("workspace", "group")]
        return [(None, {"fields": asked})]

    def get_readonly_fields(self, request: HttpRequest, obj: AccessReview | None = None) -> Any:
        return self.readonly_fields if obj is not None else []

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        is_over = isinstance(obj, AccessReview) and obj.closed_at is not None
        return super().has_change_permission(request, obj) and not is_over

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    # Starting: the form's check takes the snapshot, so that a review without grants is refused on its page.

    def save_model(self, request: HttpRequest, obj: AccessReview, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        deciding.start(obj, form.cleaned_data["reviewers"], request.user)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except ValidationError as error:  # of the snapshot
            messages.error(request, " ".join(error.messages))
            return redirect(request.get_full_path())

    def response_add(
        self, request: HttpRequest, obj: AccessReview, post_url_continue: str | None = None
    ) -> HttpResponse:
        messages.success(request, _t("The review has begun."))
        return redirect(reverse("admin:access_review_accessreview_change", args=[obj.pk]))

    @detail_action(description=_("Decide"), icon="checklist", permissions=["view"], url_path="decide")
    def decide(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(_rows_of(row_of(self, request, object_id), "decision=undecided"))

    def has_close_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may = request.user.has_perm("access_review.change_accessreview") and str(object_id).isdecimal()
        return may and not AccessReview.objects.filter(pk=object_id or 0, closed_at__isnull=False).exists()

    @detail_action(description=_("Close"), icon="done_all", permissions=["close"], url_path="close")
    def close(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row: Any = row_of(self, request, object_id)
        back = reverse("admin:access_review_accessreview_change", args=[row.pk])
        asked = self.confirmation(
            request,
            title=_t("Close this review?"),
            items=[(row.name, self.shown_progress(row))],
            explanation=_t("No more decisions can be made in it. Undecided grants stay unchanged, and stay recorded."),
            button=_t("Close the review"),
            back=back,
            reason=True,
        )
        if asked is not None:
            return asked
        try:
            deciding.close(row, request.user, request.POST.get("reason", ""))
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        return redirect(back)


def _rows_of(review: AccessReview, query: str) -> str:
    return f"{reverse('admin:access_review_reviewedgrant_changelist')}?review={review.pk}&{query}"


@admin.register(ReviewedGrant)
class ReviewedGrantAdmin(WorkspacePages, ReadOnlyAdmin):
    list_display = ["label", "kind", "shown_grant", "tool_count", _USED, "shown_unused", "shown_decision", "review"]
    list_select_related = ["review"]
    filters = PAGE_FILTERS
    search_fields = ["label", "grant"]
    search_help_text = _("Holder or grant")
    ordering = ["-review__started_at", "label", "kind", "pk"]
    actions = ["keep", "take_away"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["label", "principal", "kind", "shown_grant", "review"]}),
        (_("Opens"), {"fields": ["tool_count", "shown_tools", "shown_through", _USED, "shown_unused"]}),
        (_("Decision"), {"fields": ["shown_decision", "reason", "decided_by", _DECIDED]}),
    ]

    shown_grant = column(_("by"), lambda row: cell(row.grant), ordering="grant")
    shown_tools = column(_("tools"), lambda row: ", ".join(row.tool_names) + (", …" if _has_more(row) else "") or "-")
    shown_through = column(_("through"), lambda row: pretty(row.through) if row.through else "-")

    @admin.display(description=_("unused for 90 days"))
    def shown_unused(self, row: ReviewedGrant) -> SafeString | str:
        return mark("warn", _("Unused")) if row.is_unused else "-"

    @admin.display(description=_("decision"), ordering="decision")
    def shown_decision(self, row: ReviewedGrant) -> SafeString:
        return mark(*_DECISIONS[row.state])

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("access_review.decide_accessreview")

    @admin.action(description=_("Keep the selected grants"), permissions=["decide"])
    def keep(self, request: HttpRequest, queryset: QuerySet[ReviewedGrant]) -> HttpResponse | None:
        return self._decide(request, queryset, "keep")

    @admin.action(description=_("Take the selected grants away"), permissions=["decide"])
    def take_away(self, request: HttpRequest, queryset: QuerySet[ReviewedGrant]) -> HttpResponse | None:
        return self._decide(request, queryset, "take_away")

    def _decide(self, request: HttpRequest, queryset: QuerySet[ReviewedGrant], word: str) -> HttpResponse | None:
        count, is_end = queryset.count(), word == "take_away"
        if count > deciding.MOST_AT_ONCE:
            words = _t("Decide about at most %(most)d rows at once.")
            messages.error(request, words % {"most": deciding.MOST_AT_ONCE})
            return None
        title = (
            ngettext("Take %(count)d grant away?", "Take %(count)d grants away?", count)
            if is_end
            else ngettext("Keep %(count)d grant?", "Keep %(count)d grants?", count)
        )
        asked = self.confirmation(
            request,
            title=title % {"count": count},
            items=[(clipped(row.label, 80), clipped(row.grant, 120)) for row in queryset[:50]],
            explanation=_t(
                "Keys are revoked, people removed from groups, accounts disabled and apps revoked at once. A reason "
                "is needed. Nobody decides about their own access."
            )
            if is_end
            else _t("They stay unchanged. Your decision and its reason are recorded."),
            button=_t("Take away") if is_end else _t("Keep"),
            back=request.get_full_path(),
            action=word,
            danger=is_end,
            reason=True,
            selected=list(queryset.values_list("pk", flat=True)),
        )
        if asked is not None:
            return asked
        return self._outcomes(request, queryset, word)

    def _outcomes(self, request: HttpRequest, queryset: QuerySet[ReviewedGrant], word: str) -> HttpResponse:
        shown: list[tuple[str, SafeString, str]] = []
        by_review: dict[int, list[ReviewedGrant]] = {}
        for row in queryset.select_related("review"):
            by_review.setdefault(row.review_id, []).append(row)
        for rows in by_review.values():
            try:
                found = deciding.decide(rows[0].review, rows, word, request.POST.get("reason", ""), request.user)
            except ValidationError as error:
                problem = " ".join(error.messages)
                found = [deciding.DecidedRow(row, problem) for row in rows]
            for each in found:
                decision = mark("bad", _t("Unchanged")) if each.problem else mark(*_DECISIONS[each.row.state])
                shown.append((clipped(each.row, 120), decision, each.problem))
        return self.outcomes_page(request, title=_t("Result"), rows=shown, back=request.get_full_path())


def _has_more(row: ReviewedGrant) -> bool:
    return row.tool_count > len(row.tool_names)
