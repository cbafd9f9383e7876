"""Guardrails: what is looked for in arguments and results, where, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import readable_rows
from tools_catalog.backends.http.configuration import Service
from tools_catalog.guardrails import functions, scanning
from tools_catalog.guardrails.guardrail import (
    ACTIONS,
    CHECKS,
    CLOSED,
    DETECTORS_SECONDS,
    DIRECTIONS,
    OPEN,
    Guardrail,
    OwnCheck,
)
from tools_catalog.guardrails.scanning import Scanner
from tools_catalog.guardrails.services import ServiceCheck, configuration_of
from tools_catalog.models.content import Switchable
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.scoped import NAMED, ScopedModel
from tools_catalog.models.services import HttpService

MOST_GUARDRAILS = 100
"""Of a hub. Each that concerns a tool looks at its calls, and names a series of the metrics."""
MAX_SECONDS = 10.0


class McpGuardrail(ScopedModel, LoadableModel):
    """One guardrail; see docs/guardrails.md."""

    RECORDED_AS = "guardrail"
    UNRECORDED: ClassVar[tuple[str, ...]] = ("loaded_by", "version")
    GUARDED: ClassVar[Mapping[str, Any]] = {
        "enabled": True,
        "watching": False,
        "applies_to": "all",
        "target": "",
        "direction": "both",
        "action": "refuse",
        "on_failure": CLOSED,
        "checked_by": "detectors",
        "detectors": "",
        "max_bytes": None,
        "max_depth": None,
        "function": "",
        "service": "",
        "path": "",
        "seconds": 2.0,
    }

    class Direction(models.TextChoices):
        ARGUMENTS = "arguments", _("Arguments")
        RESULT = "result", _("Results")
        BOTH = "both", _("Arguments and results")

    class Check(models.TextChoices):
        DETECTORS = "detectors", _("Detectors of the hub")
        FUNCTION = "function", _("Python function")
        SERVICE = "service", _("HTTP service")

    class Action(models.TextChoices):
        INSPECT = "inspect", _("Inspect")
        MASK = "mask", _("Mask")
        REFUSE = "refuse", _("Refuse")

    class OnFailure(models.TextChoices):
        CLOSED = CLOSED, _("Fail closed: the call is refused, the result withheld")
        OPEN = OPEN, _("Fail open: the call goes on unlooked at")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[NAMED],
        help_text=_("Stands in the record of each call in which it acted."),
    )
    direction = models.CharField(_("looks at"), max_length=9, choices=Direction, default=Direction.BOTH)
    checked_by = models.CharField(_("checked by"), max_length=9, choices=Check, default=Check.DETECTORS)
    detectors = models.CharField(
        _("detectors"),
        max_length=1000,
        blank=True,
        help_text=_(
            "Groups or kinds, with blanks between: secrets, personal, hidden, injection, size; or email, iban, …"
        ),
    )
    max_bytes = models.PositiveIntegerField(
        _("most bytes"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Of the value as JSON; for the detectors size and bytes."),
    )
    max_depth = models.PositiveSmallIntegerField(
        _("most levels"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(256)],
        help_text=_("Of arrays and objects within one another; for the detectors size and depth."),
    )
    function = models.CharField(
        _("function"), max_length=255, blank=True, help_text=_("A function with @guardrail, as module:name.")
    )
    service = models.CharField(
        _("service"),
        max_length=32,
        blank=True,
        help_text=_("The name of a service of the catalogue: it has the address and the headers."),
    )
    path = models.CharField(_("path"), max_length=500, blank=True, help_text=_("Of the service, such as /look."))
    seconds = models.FloatField(
        _("seconds"),
        default=2.0,
        validators=[MinValueValidator(0.05), MaxValueValidator(MAX_SECONDS)],
        help_text=_("How long a function or a service may take."),
    )
    on_failure = models.CharField(
        _("where it fails"),
        max_length=6,
        choices=OnFailure,
        blank=True,
        help_text=_(
            "Of a function or a service that raises, is too slow, or answers nonsense. Say it; there is no default."
        ),
    )
    action = models.CharField(_("action"), max_length=7, choices=Action, default=Action.INSPECT)
    words = models.CharField(
        _("words for the caller"),
        max_length=500,
        blank=True,
        help_text=_("Said where it refuses. Say what to do instead, and nothing of what was found."),
    )
    position = models.SmallIntegerField(
        _("order"),
        default=0,
        validators=[MinValueValidator(-1000), MaxValueValidator(1000)],
        help_text=_("Smaller ones first; each sees what those before it masked."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    watching = models.BooleanField(
        _("watch only"), default=False, help_text=_("Does nothing: the record says what it would have done.")
    )
    version = models.PositiveIntegerField(_("version"), default=0, editable=False)
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        verbose_name = _("guardrail")
        verbose_name_plural = _("guardrails")
        ordering = ["position", "name"]
        constraints = [
            models.CheckConstraint(condition=Q(direction__in=DIRECTIONS), name="guardrail_direction_known"),
            models.CheckConstraint(condition=Q(checked_by__in=CHECKS), name="guardrail_check_known"),
            models.CheckConstraint(condition=Q(action__in=ACTIONS), name="guardrail_action_known"),
            models.CheckConstraint(
                condition=Q(checked_by="detectors") | Q(on_failure__in=[CLOSED, OPEN]),
                name="guardrail_says_how_it_fails",
                violation_error_message=_("Say whether it fails closed or open."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems = {**self.problems_of_scope(), **self._problems_of_check()}
        if self._state.adding and type(self)._default_manager.count() >= MOST_GUARDRAILS:
            problems["name"] = _("The hub has %(most)d guardrails, the most there may be. Remove one first.") % {
                "most": MOST_GUARDRAILS
            }
        if problems:
            raise ValidationError(problems)

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.detectors = " ".join(self.detectors.replace(",", " ").split())
        if self.checked_by == self.Check.DETECTORS:
            self.on_failure = ""
        self.version += 1
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "version"}
        super().save(*args, **kwargs)

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """A guardrail in force is loosened by two persons, tightened by one. One that does nothing is anybody's."""
        if stored is None or not stored["enabled"] or stored["watching"]:
            return {}
        strict = {
            name: self.GUARDED[name] for name in ("enabled", "watching", "applies_to", "target", "direction", "action")
        }
        careful = {**stored, **strict, "on_failure": CLOSED if stored["checked_by"] != self.Check.DETECTORS else ""}
        if set(stored["detectors"].split()) <= set(self.detectors.split()):
            careful["detectors"] = self.detectors
        return careful

    @property
    def is_in_force(self) -> bool:
        return self.enabled and not self.watching

    def compiled(self, services: Mapping[str, Service]) -> Guardrail:
        scanner: Scanner | None = None
        own: OwnCheck | None = None
        broken = ""
        try:
            if self.checked_by == self.Check.DETECTORS:
                scanner = scanning.scanner_of(scanning.named(self.detectors.split()), self.max_bytes, self.max_depth)
            elif self.checked_by == self.Check.FUNCTION:
                own = functions.FunctionCheck(self.function)
            elif self.service in services:
                own = ServiceCheck(services[self.service], self.path, self.seconds)
            else:
                broken = f"there is no service {self.service} that is switched on"
        except (LookupError, ValueError) as error:
            broken = str(error)
        return Guardrail(
            name=self.name,
            version=self.version,
            applies_to=self.applies_to,
            target=self.target,
            direction=self.direction,
            action=self.action,
            scanner=scanner,
            own=own,
            broken=broken,
            seconds=self.seconds if own is not None else DETECTORS_SECONDS,
            fails_open=self.on_failure == OPEN,
            words=self.words,
            position=self.position,
            watching=self.watching,
        )

    def _problems_of_check(self) -> dict[str, Any]:
        problems: dict[str, Any] = {}
        if self.checked_by == self.Check.DETECTORS:
            return self._problems_of_detectors()
        if not self.on_failure:
            problems["on_failure"] = _("Say whether it fails closed or open.")
        if self.checked_by == self.Check.FUNCTION and self.function not in functions.registry:
            problems["function"] = _("There is no function %(name)r with @guardrail. Registered: %(known)s") % {
                "name": self.function,
                "known": ", ".join(sorted(functions.registry)) or "-",
            }
        if self.checked_by == self.Check.SERVICE:
            row = HttpService.objects.filter(slug=self.service).first()
            if row is None:
                problems["service"] = _("There is no service %(name)r.") % {"name": self.service}
            else:
                try:
                    configuration_of(row.plain(), self.path, self.seconds)
                except ValueError as error:
                    problems["path"] = str(error)
        return problems

    def _problems_of_detectors(self) -> dict[str, Any]:
        try:
            kinds = scanning.named(self.detectors.replace(",", " ").split())
        except ValueError as error:
            return {"detectors": str(error)}
        if not kinds:
            return {"detectors": _("Name at least one.")}
        if {"bytes", "depth"} & set(kinds) and self.max_bytes is None and self.max_depth is None:
            return {"max_bytes": _("Say how many bytes, or how many levels below.")}
        if self.action == self.Action.MASK and set(kinds) <= {"bytes", "depth"}:
            return {"action": _("What is too large cannot be masked. Refuse it.")}
        return {}


def read_guardrails(services: Mapping[str, Service]) -> list[Guardrail]:
    """Give those that are switched on, the watching ones too."""
    return [row.compiled(services) for row in readable_rows(McpGuardrail.objects.filter(enabled=True))]
