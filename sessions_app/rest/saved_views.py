"""REST over lists of the console as people saved them: each person's own, and those that others share."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer

from sessions_app.admin import lists
from sessions_app.kit.lists.filters import ListFilter, TextIs, YesOrNo
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, StrictText, WritingViewSet
from sessions_app.models.lists import SavedView
from sessions_app.protocol.errors import Forbidden
from sessions_app.rest.access import OF_CONSOLE

_BY_PEOPLE = "By people who are logged in, not by keys."

SAVED_VIEW_FILTERS: tuple[ListFilter, ...] = (
    TextIs(name="page", help_text="Of which list: the label of its model, such as invocations.mcptoolinvocation."),
    YesOrNo(name="shared", column="is_shared", help_text="Views that everybody sees who sees the list."),
)


class SavedViewSerializer(RowSerializer[SavedView]):
    """A list of the console as somebody saved it: filters, search, order and columns, under a name."""

    page = StrictText(
        max_length=100, help_text="Of which list: the label of its model, such as invocations.mcptoolinvocation."
    )
    query = StrictText(
        max_length=lists.LONGEST_QUERY,
        required=False,
        allow_blank=True,
        default="",
        help_text="What follows the question mark in the address of the list. Only the owner changes it.",
    )
    owner = serializers.CharField(source="owner.username", read_only=True, help_text="Who saved it.")
    is_own = serializers.SerializerMethodField(help_text="Whether it is the view of who asks.")
    address = serializers.SerializerMethodField(help_text="Where the console shows it.")

    class Meta:
        model = SavedView
        fields = ["id", "page", "name", "query", "is_shared", "owner", "is_own", "address"]
        validators: list[object] = []  # the row itself says whether its name is taken
        extra_kwargs = {"is_shared": {"help_text": "To share, and to take a share back, needs the right to share."}}

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        found = super().get_fields()
        if self.instance is not None:
            found["page"].read_only = True
        return found

    def get_is_own(self, row: SavedView) -> bool:
        return bool(row.owner_id == self.context["request"].user.pk)

    def get_address(self, row: SavedView) -> str:
        path = reverse(f"admin:{row.page.replace('.', '_')}_changelist")
        return str(self.context["request"].build_absolute_uri(f"{path}?{row.query}" if row.query else path))

    def _write(self, row: SavedView, values: dict[str, Any]) -> SavedView:
        """Save it, or raise Forbidden or ValidationError."""
        request: Request = self.context["request"]
        is_new = row.pk is None
        if is_new:
            row.owner_id = request.user.pk or 0
            _refuse_new(request, values["page"])
        if values.get("is_shared", row.is_shared) != row.is_shared and not request.user.has_perm(lists.MAY_SHARE):
            raise Forbidden("Your account may not share views.", permission=lists.MAY_SHARE)
        if "query" in values:
            values["query"] = lists.normal(QueryDict(values["query"])).urlencode(safe=",")
            if not is_new and row.owner_id != request.user.pk and values["query"] != row.query:
                raise Forbidden("Only who saved a view changes what it shows. Save one of your own.")
        return super()._write(row, values)


def _refuse_new(request: Request, page: str) -> None:
    pages = _pages(request)
    if page not in pages:
        raise ValidationError({"page": f"Views are saved of these lists: {', '.join(pages) or 'none that you see'}."})
    if SavedView.objects.filter(owner=request.user.pk, page=page).count() >= lists.MOST_VIEWS:
        raise ValidationError({"page": f"You have {lists.MOST_VIEWS} views of this list already. Delete one first."})


def _pages(request: Request) -> list[str]:
    return sorted(page.opts.label_lower for page in lists.arranged(request._request))


@extend_schema_view(
    list=extend_schema(summary="Saved views: one's own and those that are shared", description=_BY_PEOPLE),
    retrieve=extend_schema(summary="One saved view", description=_BY_PEOPLE),
    create=extend_schema(summary="Save a view of a list", description=_BY_PEOPLE),
    update=extend_schema(summary="Replace a saved view", description=_BY_PEOPLE),
    partial_update=extend_schema(
        summary="Change a saved view", description=f"{_BY_PEOPLE} Of others those that are shared, with the right to."
    ),
    destroy=extend_schema(summary="Delete a saved view", description=_BY_PEOPLE),
)
class SavedViewViewSet(mixins.CreateModelMixin, mixins.DestroyModelMixin, WritingViewSet[SavedView]):
    queryset = SavedView.objects.select_related("owner")
    serializer_class = SavedViewSerializer
    filters = SAVED_VIEW_FILTERS
    ordering = ("page", "name", "id")
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {"read": OF_CONSOLE, "write": OF_CONSOLE}
    missing = "There is no such view. GET /api/saved-views/ lists them."

    def check_permissions(self, request: Request) -> None:
        if request.auth is not None:
            raise Forbidden("Views are those of people who are logged in. Keys have none.")
        super().check_permissions(request)

    def get_queryset(self) -> QuerySet[SavedView]:
        seen = lists.seen_by(self.request)
        return super().get_queryset().filter(pk__in=seen.values("pk"), page__in=_pages(self.request))

    def perform_create(self, serializer: BaseSerializer[SavedView]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_update(self, serializer: BaseSerializer[SavedView]) -> None:
        self._refuse_foreign(serializer.instance)
        serializer.save()

    def perform_destroy(self, instance: SavedView) -> None:
        self._refuse_foreign(instance)
        instance.delete()

    def _refuse_foreign(self, view: SavedView | None) -> None:
        if view is None or not lists.may_change(self.request, view):
            raise Forbidden("The view is somebody else's.", permission=lists.MAY_SHARE)
