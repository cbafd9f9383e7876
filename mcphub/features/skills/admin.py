"""The pages of skills: one is added from a zip, an address or the text of its SKILL.md; each change makes a version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from invocations.admin.row_calls import calls_found
from mcphub.features.skills import contents, fetching
from mcphub.features.skills.contents import SkillContents, SkillRefused
from mcphub.features.skills.filters import SKILL_FILTERS
from mcphub.features.skills.findings import findings
from mcphub.features.skills.models import Skill
from sessions_app.kit.admin.base import moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.row_page import PagePart, adds_to_page
from sessions_app.kit.shown import breakable, clipped, mono, visible
from tools_catalog.admin.content import ContentAdmin

if TYPE_CHECKING:
    _Form = forms.ModelForm[Skill]
else:
    _Form = forms.ModelForm

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


class SkillForm(_Form):
    upload = forms.FileField(
        label=_("Upload"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("A zip of the skill's folder, or a SKILL.md. Replaces all files."),
    )
    address = forms.URLField(
        label=_("Address"),
        required=False,
        assume_scheme="https",
        widget=UnfoldAdminTextInputWidget,
        help_text=_("URL of a zip or a SKILL.md, fetched once without credentials. Replaces all files."),
    )
    text = forms.CharField(
        label="SKILL.md",
        required=False,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 24, "spellcheck": "false"}),
        help_text=_("Begins with frontmatter: a name and a description between two lines of ---."),
    )
    kept_version = forms.TypedChoiceField(
        label=_("Version in force"),
        required=False,
        coerce=int,
        empty_value=None,
        widget=UnfoldAdminSelectWidget,
        help_text=_("Choose an earlier one to serve its files again."),
    )
    change_reason = forms.CharField(
        label=_("Reason for this change"),
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Stored in the row's history."),
    )

    class Meta:
        model = Skill
        exclude: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            self.fields.pop("kept_version", None)
            return
        if self.instance.offer_id is not None:
            for name in ("upload", "address", "text", "nested"):
                self.fields.pop(name, None)
        if "text" in self.fields:
            self.fields["text"].initial = self.instance.text()
        if "kept_version" in self.fields:
            versions = self.instance.versions.order_by("-number")
            chosen = self.fields["kept_version"]
            assert isinstance(chosen, forms.TypedChoiceField)
            chosen.choices = [(each.number, f"{each.number}: {each.made_at:%Y-%m-%d %H:%M} UTC") for each in versions]
            chosen.initial = self.instance.version

    def _get_validation_exclusions(self) -> set[str]:
        """Leave out the path where the files are refused: it follows from them, so one fault has one error."""
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]  # the stubs lack it
        return excluded | {"path"} if self.errors else excluded

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "nested" in cleaned and cleaned["nested"] is None:  # the field was emptied
            cleaned["nested"] = []
        field = next((name for name in ("upload", "address") if cleaned.get(name)), "text")
        try:
            given = self._given(cleaned)
            if given is not None:
                self.instance.take(given)
            elif (number := cleaned.get("kept_version")) not in (None, self.instance.version):
                field = "kept_version"
                self.instance.use_version(number)
            elif self.instance.pk is None:
                raise SkillRefused(_t("Upload a zip, or enter an address or the text of SKILL.md."))
        except SkillRefused as error:
            self.add_error(field, str(error))
        return cleaned

    def _given(self, cleaned: dict[str, Any]) -> SkillContents | None:
        """Return the files that were entered; None where they stay."""
        upload: UploadedFile[bytes] | None = cleaned.get("upload")
        if upload:
            return contents.of_file(upload)
        if address := cleaned.get("address"):
            return async_to_sync(fetching.fetched)(address)
        # Browsers send every line of a text area with both of its ends.
        text = str(cleaned.get("text", "")).replace("\r\n", "\n")
        if self.instance.pk is None:
            return contents.of_text(text) if text else None
        if "text" not in cleaned or text == self.instance.text().replace("\r\n", "\n"):
            return None
        return contents.of_files({**self.instance.current().raw_files(), contents.ENTRY: text.encode()})


@admin.register(Skill)
class SkillAdmin(ContentAdmin):
    form = SkillForm
    page_facts = ("shown_uri", "shown_description", "shown_upstream", "version", "state", "shown_findings")
    form_fields = ("upload", "address", "text", "kept_version", "change_reason")
    list_display = ["shown_path", "shown_upstream", "shown_description", "version", "state", _CHANGED]
    list_select_related: ClassVar[bool | list[str]] = ["offer__connection"]
    list_display_links = ["shown_path"]
    filters = SKILL_FILTERS
    search_fields = ["path", "description"]
    search_help_text = _("Path or description")
    autocomplete_fields = ["groups", "toolsets"]
    readonly_fields = [
        "shown_uri",
        "shown_origin",
        "shown_description",
        "shown_files",
        "shown_text",
        _REGISTERED,
        _CHANGED,
    ]
    fieldsets: ClassVar[Any] = [
        (_("What clients see"), {"fields": ["path", "shown_uri", "shown_description", "shown_files"]}),
        (_("Content"), {"fields": ["upload", "address", "text", "kept_version", "nested", "as_prompt"]}),
        (_("Access"), {"fields": ["enabled", "workspace", "groups", "toolsets"]}),
        (_("More"), {"classes": ["collapse"], "fields": [_REGISTERED, _CHANGED]}),
        (_("This change"), {"fields": ["change_reason"]}),
    ]

    shown_path = column(_("path"), lambda skill: mono(clipped(skill.path, 100)), ordering="path")
    shown_description = column(
        _("description"), lambda skill: breakable(clipped(skill.description, 300) or "-"), ordering="description"
    )
    shown_uri = column("URI", lambda skill: mono(skill.uri))
    shown_findings = column(_("Findings"), lambda skill: "; ".join(map(": ".join, findings(skill.current()).items())))
    shown_upstream = column(_("connection"), lambda skill: skill.upstream or "-", ordering="offer__connection__slug")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = super().get_fieldsets(request, obj)
        if obj is not None and obj.offer_id is not None:
            return self._of_upstream(shown)
        if obj is not None and self.has_change_permission(request, obj):
            return shown
        if obj is not None:
            return [*shown, ("SKILL.md", {"fields": ["shown_text"]})]
        absent = {"shown_uri", "shown_description", "shown_files", "kept_version", "nested", _REGISTERED, _CHANGED}
        kept = [(title, [name for name in options["fields"] if name not in absent]) for title, options in shown]
        return [(title, {"fields": names}) for title, names in kept if names]

    @staticmethod
    def _of_upstream(fieldsets: Any) -> Any:
        """Return the fieldsets of a copy of an upstream's skill, whose files nobody writes here."""
        absent = {"upload", "address", "text", "nested"}
        kept = [
            (title, {**options, "fields": [name for name in options["fields"] if name not in absent]})
            for title, options in fieldsets
        ]
        kept[0][1]["fields"].insert(2, "shown_origin")
        return [*kept, ("SKILL.md", {"fields": ["shown_text"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Skill | None = None) -> Any:
        found = super().get_readonly_fields(request, obj)
        return [*found, "path"] if obj is not None and obj.offer_id is not None else found

    @admin.display(description=_("Comes from"))
    def shown_origin(self, skill: Skill) -> SafeString:
        assert skill.offer is not None
        link = reverse("admin:tools_catalog_mcpupstreamtool_change", args=[skill.offer_id])
        there = clipped(f"{skill.upstream} · {skill.offer.upstream_name}", 300)
        return format_html('<a class="hub-link" href="{}">{}</a>', link, there)

    @admin.display(description=_("text"))
    def shown_text(self, skill: Skill) -> SafeString:
        return format_html('<pre class="hub-json">{}</pre>', visible(skill.text()))

    @admin.display(description=_("files"))
    def shown_files(self, skill: Skill) -> SafeString:
        """Return the manifest of the version in force, with the findings in its texts."""
        version = skill.current()
        files, found = version.files.order_by("path"), findings(version)
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            (
                (
                    mono(file.path),
                    ngettext("%(n)d byte", "%(n)d bytes", file.size) % {"n": file.size},
                    self._digest(file.content_id, found.get(file.path)),
                )
                for file in files
            ),
        )
        names = format_html_join(
            "", '<th scope="col">{}</th>', ((capfirst(_t("path")),), (_t("Size"),), (_t("Digest"),))
        )
        table = (
            '<div class="hub-scroll"><table class="hub-table"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
        )
        return format_html(table, names, rows)

    @staticmethod
    def _digest(digest: str, finding: str | None) -> SafeString | str:
        """Return the digest, above the finding: its column has the room."""
        if finding is None:
            return digest
        return format_html("{}<br>{}", digest, _t("Review carefully: %(kinds)s") % {"kinds": finding})

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d skill?", "Enable %(count)d skills?", count),
                _t("Clients can see and read them again within 250 ms."),
                ngettext("%(count)d skill enabled: %(names)s.", "%(count)d skills enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d skill?", "Disable %(count)d skills?", count),
            _t("Clients no longer see them. You can enable them again."),
            ngettext("%(count)d skill disabled: %(names)s.", "%(count)d skills disabled: %(names)s.", count),
        )


@adds_to_page(Skill, place=20)
def its_reads(request: HttpRequest, row: Skill) -> Iterator[PagePart]:
    """Yield the reads of its SKILL.md."""
    return calls_found(request, {"target": row.uri})
