"""Archived calls in REST's form, which the command prints, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from invocations.models import McpToolInvocation
from invocations.rest.serializers import InvocationSerializer
from mcphub.features.archive.searching import ArchivePage
from sessions_app.protocol.json import Json


class ArchivePlaceSerializer(serializers.Serializer[Any]):
    """Where in the archive a call comes from."""

    month = serializers.CharField(help_text="The month in which it was sealed.")
    file = serializers.CharField(help_text="The file, below the folder of the month.")
    position = serializers.IntegerField(help_text="Among all rows of the log.")
    leaf = serializers.CharField(help_text="Its hash, as the log has it.")


class ArchivedCallSerializer(InvocationSerializer):
    """One archived call; the members that `fields` names, or all."""

    archived = serializers.SerializerMethodField(help_text="Where in the archive it comes from.")

    class Meta(InvocationSerializer.Meta):
        fields = [*InvocationSerializer.Meta.fields, "archived"]
        read_only_fields = fields

    @extend_schema_field(ArchivePlaceSerializer)
    def get_archived(self, call: McpToolInvocation) -> Json:
        return self.context["places"][call.pk]


class ArchiveReadSerializer(serializers.Serializer[Any]):
    """The files that a search read."""

    months = serializers.ListField(child=serializers.CharField())
    files = serializers.IntegerField()
    bytes = serializers.IntegerField()
    is_cut = serializers.BooleanField(help_text="The bound of what a search reads ended the page: follow `next`.")


class ArchivePageSerializer(serializers.Serializer[Any]):
    """Archived calls, newest first."""

    next = serializers.CharField(allow_null=True, help_text="The address of the next page; null: there are no more.")
    results = ArchivedCallSerializer(many=True)
    read = ArchiveReadSerializer()


def told_page(page: ArchivePage, *, hidden: bool, members: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a page with the position where the next one begins as `next`."""
    places = {
        each.call.pk: {"month": each.month, "file": each.file, "position": each.position, "leaf": each.leaf}
        for each in page.calls
    }
    context = {"hidden": hidden, "fields": members, "places": places}
    read = {"months": page.months, "files": page.files, "bytes": page.bytes, "is_cut": page.is_cut}
    calls = ArchivedCallSerializer([each.call for each in page.calls], many=True, context=context).data
    return {"next": page.next, "results": calls, "read": read}
