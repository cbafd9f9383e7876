"""REST's common treatment of removable rows of the catalogue: resources, prompts, toolsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins
from rest_framework.serializers import BaseSerializer

from sessions_app.history import guarding
from sessions_app.history.recording import one_row
from sessions_app.kit import left_out
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import WritingViewSet, attribute
from tools_catalog.rest.tools import SCOPES, visible_rows


class RemovableViewSet(mixins.CreateModelMixin, mixins.DestroyModelMixin, WritingViewSet[Any]):
    # No docstring: it would stand at every operation of the OpenAPI document.
    required_scope = SCOPES
    holds_back = True
    in_force = ""
    """The refusal to remove a row in force, where that needs a second person. Empty: any row may go."""

    def get_queryset(self) -> QuerySet[Model]:
        return visible_rows(super().get_queryset(), self.request)

    def perform_create(self, serializer: BaseSerializer[Any]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_destroy(self, instance: Model) -> None:
        with transaction.atomic():
            if self.in_force and guarding.needs_second_person():
                stored = one_row(type(instance), instance.pk).first()
                if stored is not None and stored.is_in_force:  # it may be so since the request read it
                    raise Conflict(self.in_force)
            if kept := left_out.refusal([instance]):
                raise Conflict(kept)
            attribute(instance, self.request, "")
            instance.delete()


def described(one: str, listed: str, *, on_removal: str = "") -> Callable[[type[Any]], type[Any]]:
    """Return the summaries of the OpenAPI document for rows that are called `one`."""
    return extend_schema_view(
        list=extend_schema(summary=listed),
        retrieve=extend_schema(summary=f"One {one}"),
        create=extend_schema(summary=f"Add a {one}"),
        update=extend_schema(summary=f"Replace a {one}"),
        partial_update=extend_schema(summary=f"Change a {one}"),
        destroy=extend_schema(summary=f"Remove a {one}", description=on_removal or None),
    )
