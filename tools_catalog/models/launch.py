"""Launch profiles: the commands that the hub may run as children, and their permitted access."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText
from tools_catalog.bindings import PROFILE, Destination
from tools_catalog.models.moving import Moving
from tools_catalog.models.places import PlaceModel
from tools_catalog.models.secrets import Secret
from tools_catalog.models.short_names import SHORT_NAME, check_short_name
from tools_catalog.upstream import scripts, spec
from tools_catalog.upstream.confinement import paths

_PARSED: Final[Mapping[str, Callable[[Any], object]]] = {
    "arguments": spec.parse_arguments,
    "environment": spec.parse_environment,
    "readable": spec.parse_paths,
    "writable": spec.parse_paths,
}


_MOST_LOOKED_AT: Final = 500
"""Other profiles that a new one is compared with."""


def hidden_from_children() -> tuple[str, ...]:
    """Return the hub's paths that no sandboxed child may reach: data, keys, the audit, the database."""
    found: list[object] = [
        settings.MCPHUB_DATA_DIR,
        settings.MCPHUB_SECRET_KEY_FILE,
        settings.MCPHUB_ENCRYPTION_KEY_FILE,
        settings.MCPHUB_AUDIT_DIR,
    ]
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        found += [f"{database['NAME']}{end}" for end in ("", "-wal", "-shm", "-journal")]
    return tuple(str(path) for path in found)


class LaunchProfile(PlaceModel):
    """A command that the hub may run as a child process. Its editors run programs on this machine."""

    SEEN_BY_PEOPLE = True
    WHERE = BOUND = ("command", "arguments", "environment", "directory")

    class Instances(models.TextChoices):
        EACH = "each", _("One per worker process")
        SINGLE = "single", _("One in the whole hub")

    class Network(models.TextChoices):
        NONE = spec.LaunchSpec.NO_NETWORK, _("None")
        OPEN = spec.LaunchSpec.OPEN, _("Open: everything that the hub's machine can reach, including its own services")

    name = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[check_short_name],
        help_text=_("To use a secret in its environment, add NAME.stdio to the secret's origins."),
    )
    command = models.CharField(
        _("command"), max_length=500, help_text=_("A program: its path, or a name found in PATH. No shell is involved.")
    )
    arguments = JSONText(
        _("arguments"), default=list, blank=True, help_text=_("A list of arguments, passed as they are.")
    )
    environment = JSONText(
        _("environment"),
        default=dict,
        blank=True,
        help_text=_(
            "Variables by name; {secret:NAME} inserts a secret. PATH, LANG, LC_ALL and TZ come from the hub. "
            "HOME and TMPDIR are the child's own folders, or the hub's if it is not sandboxed."
        ),
    )
    directory = models.CharField(
        _("directory"),
        max_length=500,
        blank=True,
        help_text=_("Where it starts. Leave blank for a folder that the hub makes for it, its HOME."),
    )
    readable = JSONText(
        _("readable paths"),
        default=list,
        blank=True,
        help_text=_("Files and folders that it can read and run, besides its program and the system."),
    )
    writable = JSONText(
        _("writable paths"),
        default=list,
        blank=True,
        help_text=_("Files and folders that it may change, beneath those of MCPHUB_CHILDREN_WRITABLE."),
    )
    network = models.CharField(
        _("network"),
        max_length=10,
        choices=Network,
        default=Network.NONE,
        help_text=_("Unix sockets are always blocked."),
    )
    user = models.CharField(
        _("user"),
        max_length=32,
        blank=True,
        validators=[RegexValidator(r"^([a-z_][a-z0-9_-]*\$?|[1-9][0-9]{0,8})\Z")],
        help_text=_("User to run as, by name or number, if the hub runs as root. Leave blank for the hub's user."),
    )
    is_unconfined = models.BooleanField(
        _("not sandboxed"),
        default=False,
        help_text=_(
            "It can do whatever the hub can, including reading the hub's keys and changing its records. Only "
            "superusers can set this."
        ),
    )
    memory_mb = models.PositiveIntegerField(
        _("memory in MB"), default=0, help_text=_("Address space per process. 0: no limit.")
    )
    cpu_seconds = models.PositiveIntegerField(
        _("processor time in seconds"), default=0, help_text=_("In total for each process. 0: no limit.")
    )
    open_files = models.PositiveIntegerField(_("open files"), default=1024, validators=[MinValueValidator(16)])
    file_mb = models.PositiveIntegerField(
        _("largest file in MB"), default=1024, help_text=_("That it can write. 0: no limit.")
    )
    max_processes = models.PositiveIntegerField(
        _("processes"), default=0, help_text=_("Including threads, counted with all others of its user. 0: no limit.")
    )
    instances = models.CharField(_("instances"), max_length=10, choices=Instances, default=Instances.EACH)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    _moving: Moving | None = None

    class Meta:
        verbose_name = _("launch profile")
        verbose_name_plural = _("launch profiles")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=~Q(command=""), name="launch_profile_command_present"),
            models.CheckConstraint(condition=Q(name__regex=SHORT_NAME.pattern), name="launch_profile_name_wellformed"),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        try:
            spec.parse_environment(self.environment, has_literals=True)
            self._moving = self._moving or Moving()
            to = Destination(f"{self.name}{PROFILE}")
            self.environment = self._moving.taken(self.environment, "environment", to)
        except ValueError as error:
            problems["environment"] = str(error)
        for field, parse in _PARSED.items():
            try:
                parse(getattr(self, field))
            except ValueError as error:
                problems.setdefault(field, str(error))
        if not self.is_unconfined:
            self._check_paths(problems)
        if not problems and (replaced := self._problem_with_others()):
            problems["writable"] = replaced
        if "\x00" in self.command or self.command.startswith("-"):
            problems["command"] = _("Enter a program.")
        elif not problems and (path := scripts.without_folder(self.command, self.arguments, self.directory)):
            problems["command" if path == self.command else "arguments"] = _(
                "%(path)s is a relative path, and no folder is named in which it starts. Enter the absolute path, or "
                "the folder as the directory."
            ) % {"path": path}
        if not problems and (problem := self._problem_of_secrets()):
            problems["environment"] = problem
        if problems:
            raise ValidationError(problems)

    def _check_paths(self, problems: dict[str, Any]) -> None:
        """Add the problems of paths in fields that parse."""
        for field, named in (
            ("directory", [self.directory] if self.directory else []),
            ("readable", self.readable),
            ("writable", self.writable),
        ):
            if field not in problems:
                found = (self._problem_of(path, field) for path in named)
                if wrong := [problem for problem in found if problem]:
                    problems[field] = wrong

    def _problem_of(self, path: str, field: str) -> str:
        if field != "writable":
            return paths.problem_of(path, hidden_from_children())
        roots = settings.MCPHUB_CHILDREN_WRITABLE
        return paths.problem_of_writable(path, hidden_from_children(), roots, paths.executed(os.environ))

    def _problem_with_others(self) -> str:
        """Return the program that a child could replace and another profile runs, or one of this profile that another
        child could replace.
        """
        others = [row for row in LaunchProfile.objects.exclude(pk=self.pk)[:_MOST_LOOKED_AT] if row.writable]
        writers = [row for row in [self, *others] if not row.is_unconfined and isinstance(row.writable, list)]
        for writer in writers:
            runs = [self] if writer is not self else LaunchProfile.objects.exclude(pk=self.pk)[:_MOST_LOOKED_AT]
            for row in runs:
                for program in row.programs():
                    if paths.is_beneath(program, writer.writable):
                        return _("The launch profile %(one)s could replace %(program)s, which %(other)s runs.") % {
                            "one": writer.name,
                            "program": program,
                            "other": row.name,
                        }
        return ""

    def _problem_of_secrets(self) -> str:
        needed: list[tuple[str, Destination]] = []

        def note(name: str, to: Destination) -> str:
            needed.append((name, to))
            return ""

        self.spec().rendered_environment(note)
        return Secret.problem_of(needed)

    def programs(self) -> list[str]:
        """Return the files that are run by the profile, as far as it names them."""
        words = [self.command, *(self.arguments if isinstance(self.arguments, list) else [])]
        return [word for word in words if isinstance(word, str) and word.startswith("/") and os.path.isfile(word)]

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic():
            if self._moving is not None:
                self._moving.store()
            super().save(*args, **kwargs)

    def spec(self) -> spec.LaunchSpec:
        return spec.LaunchSpec(
            name=self.name,
            command=self.command,
            arguments=spec.parse_arguments(self.arguments),
            environment=spec.parse_environment(self.environment),
            directory=self.directory,
            memory_mb=self.memory_mb,
            cpu_seconds=self.cpu_seconds,
            open_files=self.open_files,
            file_mb=self.file_mb,
            max_processes=self.max_processes,
            folder=str(settings.MCPHUB_CHILDREN_DIR / self.name),
            readable=spec.parse_paths(self.readable),
            writable=spec.parse_paths(self.writable),
            hidden=hidden_from_children(),
            roots=settings.MCPHUB_CHILDREN_WRITABLE,
            network=self.network,
            user=self.user,
            is_unconfined=self.is_unconfined,
            is_single=self.instances == self.Instances.SINGLE,
        )
