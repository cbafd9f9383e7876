"""REST over skills: made and replaced from a zip or the text of a SKILL.md, switched, and brought back by version."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import F, Prefetch
from django.utils.translation import gettext as _t
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.skills import contents
from mcphub.features.skills.contents import SkillContents, SkillRefused
from mcphub.features.skills.filters import SKILL_FILTERS
from mcphub.features.skills.findings import findings
from mcphub.features.skills.models import Skill, SkillFile, SkillVersion
from sessions_app.kit.rest.errors import refused_members
from sessions_app.kit.rest.json_fields import JSONObject
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import (
    Named,
    ReasonedSerializer,
    RowSerializer,
    StrictInteger,
    StrictText,
    permissions,
)
from sessions_app.protocol.json import Json
from sessions_app.workspaces.rest import workspace_field
from tools_catalog.models import McpToolset
from tools_catalog.rest.removable import RemovableViewSet, described


class SkillFileSerializer(RowSerializer[SkillFile]):
    """One file in the manifest."""

    digest = serializers.CharField(source="content_id", read_only=True)

    class Meta:
        model = SkillFile
        fields = ["path", "digest", "size", "media_type"]
        read_only_fields = fields


class SkillVersionSerializer(RowSerializer[SkillVersion]):
    """A kept version; `version` of the skill names the one in force."""

    class Meta:
        model = SkillVersion
        fields = ["number", "digest", "made_at"]
        read_only_fields = fields


class SkillSerializer(ReasonedSerializer):
    """A skill with the manifest of its version in force."""

    zip = StrictText(
        write_only=True, required=False, help_text="A zip of the skill's folder in Base64. Replaces all files."
    )
    text = StrictText(
        write_only=True, required=False, trim_whitespace=False, help_text="The text of a SKILL.md, in place of a zip."
    )
    version = StrictInteger(required=False, min_value=1, help_text="In force. An earlier one serves its files again.")
    nested = serializers.ListField(
        child=StrictText(max_length=contents.LONGEST_PATH), required=False, help_text="Folders that are skills, too."
    )
    groups = Named(
        slug_field="name",
        queryset=Group.objects.all(),
        many=True,
        required=False,
        help_text="Names of the groups that may see and read it. Empty: every caller.",
    )
    toolsets = Named(
        slug_field="slug",
        queryset=McpToolset.objects.all(),
        many=True,
        required=False,
        help_text="Toolsets with chosen prompts and resources that include this skill.",
    )
    workspace = workspace_field()
    frontmatter = JSONObject(read_only=True, help_text="As its author wrote it.")
    files = serializers.SerializerMethodField(help_text="The manifest.")
    warnings = serializers.SerializerMethodField(help_text="What detectors find in its files, by path. Null in lists.")
    origin = serializers.SerializerMethodField(help_text="Connection and URI there; null for the hub's own.")

    class Meta:
        model = Skill
        fields = [
            "id",
            "path",
            "uri",
            "description",
            "frontmatter",
            "version",
            "digest",
            "files",
            "warnings",
            "origin",
            "nested",
            "as_prompt",
            "enabled",
            "groups",
            "toolsets",
            "workspace",
            "created_at",
            "updated_at",
            "zip",
            "text",
            "reason",
        ]
        read_only_fields = ["id", "uri", "description", "digest", "created_at", "updated_at"]
        extra_kwargs = {"path": {"required": False}}

    @extend_schema_field(SkillFileSerializer(many=True))
    def get_files(self, skill: Skill) -> list[dict[str, Json]]:
        files = self._in_force(skill).files.all()
        return list(SkillFileSerializer(sorted(files, key=lambda file: file.path), many=True).data)

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}, "nullable": True})
    def get_warnings(self, skill: Skill) -> dict[str, str] | None:
        is_list = getattr(self.context.get("view"), "action", "") == "list"
        return None if is_list else findings(self._in_force(skill))

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}, "nullable": True})
    def get_origin(self, skill: Skill) -> dict[str, str] | None:
        return skill.origin

    def _in_force(self, skill: Skill) -> SkillVersion:
        loaded: list[SkillVersion] = skill.__dict__.get("in_force", [])
        return loaded[0] if loaded and loaded[0].number == skill.version else skill.current()

    def _write(self, row: Any, values: dict[str, Any]) -> Any:
        zipped, text, number = (values.pop(name, None) for name in ("zip", "text", "version"))
        member = "zip" if zipped is not None else "text" if text is not None else "version"
        try:
            if zipped is not None and text is not None:
                raise SkillRefused(_t("Send a zip or the text, not both."))
            given = _given(zipped, text)
            if given is not None:
                row.take(given)
            elif number not in (None, row.version):
                row.use_version(number)
            elif row.pk is None:
                member = "zip"
                raise SkillRefused(_t("Send a zip in Base64, or the text of SKILL.md."))
        except SkillRefused as error:
            raise refused_members([(member, str(error))]) from error
        return super()._write(row, values)


def _given(zipped: str | None, text: str | None) -> SkillContents | None:
    if text is not None:
        return contents.of_text(text)
    if zipped is None:
        return None
    try:
        return contents.of_file(io.BytesIO(base64.b64decode(zipped, validate=True)))
    except (ValueError, binascii.Error) as error:
        if isinstance(error, SkillRefused):
            raise
        raise SkillRefused(_t("This is not Base64.")) from error


@described("skill", "Skills, by path")
class SkillViewSet(RemovableViewSet):
    queryset = Skill.objects.select_related("workspace", "offer__connection").prefetch_related(
        "groups",
        "toolsets",
        Prefetch(
            "versions",
            SkillVersion.objects.filter(number=F("skill__version")).prefetch_related("files"),
            to_attr="in_force",
        ),
    )
    serializer_class = SkillSerializer
    filters = SKILL_FILTERS
    ordering = ("path",)
    lookup_value_regex = "[0-9]{1,18}"
    required_permission = permissions("skills.skill")
    missing = "There is no such skill. GET /api/skills/ lists them with their ids."

    @extend_schema(summary="The kept versions of a skill", responses={200: SkillVersionSerializer(many=True)})
    @action(detail=True, methods=["get"], pagination_class=None)
    def versions(self, request: Request, pk: str) -> Response:
        rows = self.get_object().versions.order_by("-number")
        return Response(SkillVersionSerializer(rows, many=True).data)
