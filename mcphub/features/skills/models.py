"""Skills of the hub's own: rows with versions, whose files are kept once for each content."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.skills import contents
from mcphub.features.skills.contents import SCHEME, SkillContents, SkillRefused
from sessions_app.kit.fields import JSONText
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedModel, whole_hub
from tools_catalog.models import McpConnection, McpPrompt, McpResource
from tools_catalog.models.content import Switchable, keep_groups
from tools_catalog.models.loadable import LoadableModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEPT_VERSIONS = 20
"""Of each skill. Older ones are deleted as a new one comes."""


class Skill(OwnedModel, LoadableModel):
    """A skill that the hub serves, with the version in force."""

    RECORDED_AS = "skill"
    IS_SHARED = True
    GUARDED_LINKS = ("groups",)
    UNRECORDED: ClassVar[tuple[str, ...]] = (*LoadableModel.UNRECORDED, "created_at")

    path = models.CharField(
        _("path"),
        max_length=contents.LONGEST_PATH,
        unique=True,
        blank=True,
        help_text=_("Its address is skill://PATH/SKILL.md, and ends with its name. Leave blank for the name alone."),
    )
    version = models.PositiveIntegerField(_("version"), default=1)
    digest = models.CharField(_("digest"), max_length=71, editable=False)
    """Of the version's manifest."""
    description = models.TextField(_("description"), editable=False)
    frontmatter = JSONText(_("frontmatter"), default=dict, editable=False)
    nested = JSONText(
        _("nested skills"),
        default=list,
        blank=True,
        help_text=_(
            'Folders inside with a SKILL.md that are served as skills of their own: ["refunds"]. Others stay files.'
        ),
    )
    as_prompt = models.BooleanField(
        _("also a prompt"),
        default=False,
        help_text=_("Clients without the extension get its SKILL.md as a prompt of the same name."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    groups = models.ManyToManyField(
        Group,
        verbose_name=_("groups"),
        blank=True,
        related_name="+",
        help_text=_("Groups that can see and read it. Leave blank for every caller."),
    )
    toolsets = models.ManyToManyField(
        "tools_catalog.McpToolset",
        verbose_name=_("toolsets"),
        blank=True,
        related_name="+",
        help_text=_(
            "Toolsets with chosen prompts and resources that include this skill. All other toolsets include every "
            "skill. The patterns of a toolset may add it, too."
        ),
    )
    offer = models.OneToOneField(
        "tools_catalog.McpUpstreamTool",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        editable=False,
        verbose_name=_("upstream offer"),
    )
    """Whose approved copy this is; None for the hub's own."""
    is_generated = models.BooleanField(default=False, editable=False)
    """Each read goes to the upstream, which makes the files: the versions here are examples."""
    offer_id: int | None
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        verbose_name = _("skill")
        verbose_name_plural = _("skills")
        ordering = ["path"]
        constraints = [
            models.CheckConstraint(condition=~models.Q(path=""), name="skill_path_present"),
            models.CheckConstraint(condition=models.Q(version__gt=0), name="skill_version_positive"),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def uri(self) -> str:
        return contents.uri_of(self.path)

    @property
    def upstream(self) -> str | None:
        """The name of the connection that it comes from; None for the hub's own."""
        return None if self.offer is None else self.offer.connection.slug

    @property
    def origin(self) -> dict[str, str] | None:
        """The connection that it comes from, and its URI there; None for the hub's own."""
        if self.offer is None:
            return None
        return {"connection": self.offer.connection.slug, "uri": self.offer.upstream_name}

    @property
    def bundled_files(self) -> dict[str, Json]:
        """Its files as bundles have them; set, they are the next version."""
        if self.pk is None:
            return {}
        texts = ((path, raw, contents.text_of(raw)) for path, raw in sorted(self.current().raw_files().items()))
        return {path: {"base64": base64.b64encode(raw).decode()} if text is None else text for path, raw, text in texts}

    @bundled_files.setter
    def bundled_files(self, files: Mapping[str, Json]) -> None:
        self.take(contents.of_files({path: _raw_of(path, file) for path, file in files.items()}))

    @property
    def is_served(self) -> bool:
        """True while clients may see it. A copy outlives neither its connection's switch nor the skill over there."""
        if self.offer is None:
            return self.enabled
        if self.is_generated and not (
            self.offer.connection.generated_skills and self.offer.seen_digest == self.offer.approved_digest
        ):
            return False
        return self.enabled and self.offer.connection.enabled and not self.offer.is_gone

    def clean(self) -> None:
        """Check the path and the nested skills against the frontmatter and files, those of `take` or the stored."""
        problems: dict[str, Any] = {}
        name = str(self.frontmatter.get("name", ""))
        self.path = self.path.strip("/") or name
        try:
            if name:
                contents.check_place(self.path, name)
                problems |= self._clashes()
        except SkillRefused as error:
            problems["path"] = str(error)
        if self.as_prompt and self.is_generated:
            problems["as_prompt"] = _t("Its upstream makes it at each read, so it cannot be a prompt.")
        elif self.as_prompt and self._has_namesake():
            problems["as_prompt"] = _t("A prompt with its name already exists.")
        folders = self._nested_folders()
        if not isinstance(self.nested, list) or any(each not in folders for each in self.nested):
            words = _t("Enter a list of folders that have a SKILL.md. There are: %(folders)s")
            problems["nested"] = words % {"folders": ", ".join(folders) or "-"}
        if problems:
            raise ValidationError(problems)

    def take(self, given: SkillContents) -> None:
        """Make these files the next version, once the row is saved.

        Raises SkillRefused for one that cannot be read, and where the files are those of an upstream.
        """
        if self.offer_id is not None:
            raise SkillRefused(_t("Its files are those of an upstream: approve its offer instead."))
        self._take(given)

    def relay(self, version: SkillVersion) -> None:
        """Take the files that an upstream offers. Raises SkillRefused."""
        given = contents.of_files(version.raw_files())
        self._take(given)
        self.frontmatter = contents.reading_of(given.files[contents.ENTRY], version.frontmatter) or given.frontmatter
        self.description = str(self.frontmatter["description"])
        self.is_generated = version.is_generated

    def _take(self, given: SkillContents) -> None:
        check_reads(given)
        self._given = given
        self.frontmatter = given.frontmatter
        self.description = str(given.frontmatter["description"])
        self.digest = manifest_digest((path, contents.digest_of(raw)) for path, raw in given.files.items())
        self.nested = [each for each in self.nested if each in given.nested]

    def save(self, *args: Any, **kwargs: Any) -> None:
        given: SkillContents | None = self.__dict__.pop("_given", None)
        if given is None:
            super().save(*args, **kwargs)
            return
        with transaction.atomic():
            known = SkillVersion.objects.filter(skill=self.pk, digest=self.digest).first() if self.pk else None
            newest = SkillVersion.objects.filter(skill=self.pk).order_by("-number").first() if self.pk else None
            self.version = known.number if known is not None else newest.number + 1 if newest is not None else 1
            super().save(*args, **kwargs)
            if known is None:
                self._keep(given)

    def use_version(self, number: int) -> None:
        """Make a kept version the one in force, once the row is saved. Raises SkillRefused."""
        found = SkillVersion.objects.filter(skill=self.pk, number=number).first()
        if found is None:
            raise SkillRefused(_t("There is no such version."))
        self.version, self.digest, self.frontmatter = found.number, found.digest, found.frontmatter
        self.is_generated = found.is_generated
        self.description = str(found.frontmatter["description"])
        folders = found.nested_folders()
        self.nested = [each for each in self.nested if each in folders]

    def current(self) -> SkillVersion:
        return SkillVersion.objects.get(skill=self.pk, number=self.version)

    def text(self) -> str:
        """Return its SKILL.md."""
        raw = self.current().files.values_list("content__raw", flat=True).get(path=contents.ENTRY)
        return bytes(raw).decode()

    def _keep(self, given: SkillContents) -> None:
        version = SkillVersion.objects.create(
            skill=self,
            number=self.version,
            digest=self.digest,
            frontmatter=self.frontmatter,
            is_generated=self.is_generated,
        )
        version.keep(given)
        SkillVersion.objects.filter(skill=self, number__lte=self.version - KEPT_VERSIONS).delete()

    def _nested_folders(self) -> list[str]:
        given: SkillContents | None = self.__dict__.get("_given")
        if given is not None:
            return given.nested
        return self.current().nested_folders() if self.pk else []

    def _has_namesake(self) -> bool:
        with whole_hub():
            others = Skill.objects.exclude(pk=self.pk).filter(as_prompt=True)
            paths = others.filter(models.Q(path=self.name) | models.Q(path__endswith=f"/{self.name}"))
            return paths.exists() or McpPrompt.objects.filter(name=self.name).exists()

    def _clashes(self) -> dict[str, Any]:
        """Return the problem of a path within another skill, whose manifest would have to list its files."""
        within = [self.path.rpartition("/")[0]]
        while "/" in within[-1]:
            within.append(within[-1].rpartition("/")[0])
        with whole_hub():
            others = Skill.objects.exclude(pk=self.pk)
            clash = others.filter(models.Q(path__in=within) | models.Q(path__startswith=f"{self.path}/")).first()
            row = McpResource.objects.filter(
                models.Q(uri=f"{SCHEME}{self.path}") | models.Q(uri__startswith=f"{SCHEME}{self.path}/")
            ).first()
        if clash is not None:
            return {"path": _t("It lies within another skill, or another one within it: %(path)s.") % {"path": clash}}
        if row is not None:
            return {"path": _t("A resource already exists at this address: %(uri)s.") % {"uri": row}}
        return {}


class SkillVersion(models.Model):
    """The files of a skill at one time, or of an upstream's as last read. Never edited."""

    skill = models.ForeignKey(Skill, models.CASCADE, null=True, related_name="versions")
    connection = models.ForeignKey(McpConnection, models.CASCADE, null=True, related_name="+")
    """The upstream that offers it. The version that its approval makes is another one."""
    uri = models.CharField(max_length=1000, blank=True)
    """Of its SKILL.md there."""
    number = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=71)
    frontmatter = JSONText(default=dict)
    is_generated = models.BooleanField(default=False)
    """The upstream makes the files at each read: those here are an example."""
    warnings = JSONText(default=dict)
    """Of one that an upstream offers: the detectors' findings by path, as kind and count."""
    made_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["skill", "number"], name="skill_version_number_once"),
            models.UniqueConstraint(fields=["skill", "digest"], name="skill_version_digest_once"),
            models.UniqueConstraint(fields=["connection", "uri"], name="skill_version_offered_once"),
            models.CheckConstraint(
                condition=models.Q(skill=None, connection__isnull=False)
                | models.Q(skill__isnull=False, connection=None),
                name="skill_version_of_one",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.skill or self.uri} {self.number}"

    def keep(self, given: SkillContents) -> None:
        """Store the files of this version, which has none."""
        blobs = {path: contents.digest_of(raw) for path, raw in given.files.items()}
        SkillContent.objects.bulk_create(
            (SkillContent(digest=blobs[path], size=len(raw), raw=raw) for path, raw in given.files.items()),
            ignore_conflicts=True,
            batch_size=100,
        )
        SkillFile.objects.bulk_create(
            SkillFile(
                version=self,
                path=path,
                content_id=blobs[path],
                size=len(raw),
                media_type=contents.media_type_of(path, raw),
            )
            for path, raw in given.files.items()
        )

    def nested_folders(self) -> list[str]:
        found = self.files.filter(path__endswith=f"/{contents.ENTRY}").values_list("path", flat=True)
        return sorted(path.removesuffix(f"/{contents.ENTRY}") for path in found)

    def raw_files(self) -> dict[str, bytes]:
        return {path: bytes(raw) for path, raw in self.files.values_list("path", "content__raw")}


class SkillContent(models.Model):
    """The bytes of files with one digest, of whichever skills and versions."""

    digest = models.CharField(primary_key=True, max_length=71)
    size = models.PositiveBigIntegerField()
    raw = models.BinaryField()
    kept_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.digest


class SkillFile(models.Model):
    """One file of a version."""

    version = models.ForeignKey(SkillVersion, models.CASCADE, related_name="files")
    path = models.CharField(max_length=contents.LONGEST_PATH)
    content = models.ForeignKey(SkillContent, models.PROTECT, related_name="files")
    content_id: str
    size = models.PositiveBigIntegerField()
    media_type = models.CharField(max_length=200)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["version", "path"], name="skill_file_path_once")]

    def __str__(self) -> str:
        return self.path


def _raw_of(path: str, file: Json) -> bytes:
    """Return the bytes of a file of a bundle. Raises ValueError."""
    if isinstance(file, str):
        return file.encode()
    if isinstance(file, dict) and file.keys() == {"base64"} and isinstance(file["base64"], str):
        return base64.b64decode(file["base64"], validate=True)
    raise SkillRefused(f'files: {path[:100]} must be a text, or {{"base64": …}}.')


def check_reads(given: SkillContents) -> None:
    """Raise SkillRefused where one read cannot return a file."""
    limit = settings.MCPHUB_MAX_RESOURCE_BYTES
    for path, raw in given.files.items():
        text = contents.text_of(raw)
        sent = len(json.dumps(text)) if text is not None else len(base64.b64encode(raw))
        if sent > limit:
            words = _t("%(path)s is longer than the %(limit)d bytes that one read returns.")
            raise SkillRefused(words % {"path": path[:100], "limit": limit})


def manifest_digest(files: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a manifest: paths with the digests of their contents."""
    return f"sha256:{json.digest(json.canonical(sorted([path, digest] for path, digest in files)))}"


keep_groups(Skill)
