"""Guardrails: detectors, their scope, and the consequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.guardrails import functions
from mcphub.features.guardrails.guardrail import (
    ACTIONS,
    CHECKS,
    CLOSED,
    DETECTORS_SECONDS,
    DIRECTIONS,
    OPEN,
    Guardrail,
    Guardrails,
    OwnCheck,
)
from mcphub.features.guardrails.services import ServiceCheck, configuration_of
from sessions_app.kit.fields import readable_rows
from tools_catalog.backends.http.configuration import Service
from tools_catalog.detectors import scanning
from tools_catalog.detectors.scanning import Scanner
from tools_catalog.kinds.registry import kind_of
from tools_catalog.models.content import Switchable
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.scoped import NAMED, ScopedModel
from tools_catalog.models.services import HttpService

MOST_GUARDRAILS = 100
"""Of a hub. Each that concerns a tool looks at its calls, and names a series of the metrics."""
MAX_SECONDS = 10.0


class McpGuardrail(ScopedModel, LoadableModel):
    """One guardrail; see docs/secure/guardrails.md."""

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
        REFUSE = "refuse", _("Deny")

    class OnFailure(models.TextChoices):
        CLOSED = CLOSED, _("Fail closed: refuse the call, withhold the result")
        OPEN = OPEN, _("Fail open: continue without inspection")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[NAMED],
        help_text=_("Appears in the record of each call in which it acted."),
    )
    direction = models.CharField(_("inspects"), max_length=9, choices=Direction, default=Direction.BOTH)
    checked_by = models.CharField(_("checked by"), max_length=9, choices=Check, default=Check.DETECTORS)
    detectors = models.CharField(
        _("detectors"),
        max_length=1000,
        blank=True,
        help_text=_("Space-separated groups or kinds: secrets, personal, hidden, injection, size; or email, iban, …"),
    )
    max_bytes = models.PositiveIntegerField(
        _("maximum bytes"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Size of the value as JSON; used by the detectors size and bytes."),
    )
    max_depth = models.PositiveSmallIntegerField(
        _("maximum depth"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(256)],
        help_text=_("Levels of nested arrays and objects; used by the detectors size and depth."),
    )
    function = models.CharField(
        _("function"), max_length=255, blank=True, help_text=_("A function with @guardrail, as module:name.")
    )
    service = models.CharField(
        _("service"),
        max_length=32,
        blank=True,
        help_text=_("The name of a catalogue service, which provides the address and headers."),
    )
    path = models.CharField(_("path"), max_length=500, blank=True, help_text=_("On the service, such as /look."))
    seconds = models.FloatField(
        _("seconds"),
        default=2.0,
        validators=[MinValueValidator(0.05), MaxValueValidator(MAX_SECONDS)],
        help_text=_("Time limit for a function or service."),
    )
    on_failure = models.CharField(
        _("on failure"),
        max_length=6,
        choices=OnFailure,
        blank=True,
        help_text=_("When a function or service raises an error, is too slow, or returns something invalid. Required."),
    )
    action = models.CharField(_("action"), max_length=7, choices=Action, default=Action.INSPECT)
    words = models.CharField(
        _("message"),
        max_length=500,
        blank=True,
        help_text=_("Shown when it refuses. Suggest an alternative, and don't repeat the finding."),
    )
    position = models.SmallIntegerField(
        _("order"),
        default=0,
        validators=[MinValueValidator(-1000), MaxValueValidator(1000)],
        help_text=_("Lowest first; each sees the output of those before it."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    watching = models.BooleanField(
        _("log only"), default=False, help_text=_("Takes no action: only the record shows the verdict.")
    )
    version = models.PositiveIntegerField(_("version"), default=0, editable=False)
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        app_label = "tools_catalog"
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
                violation_error_message=_("Choose whether it fails closed or open."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems = {**self.problems_of_scope(), **self._problems_of_check()}
        if self._state.adding and type(self)._default_manager.count() >= MOST_GUARDRAILS:
            problems["name"] = _("The hub has %(most)d guardrails, the maximum. Delete one first.") % {
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
        """A guardrail in force is loosened by two persons, tightened by one. One that does nothing is anybody's.

        An HTTP service reads what others send: two persons let it, and give it more to read.
        """
        is_sent = self.Check.SERVICE in (self.checked_by, stored["checked_by"] if stored is not None else "")
        if stored is None or not stored["enabled"]:
            return {"enabled": False} if is_sent else {}
        if stored["watching"]:
            reach = ("applies_to", "target", "direction", "checked_by", "service", "path")
            return {name: stored[name] for name in reach} if is_sent else {}
        strict = {
            name: self.GUARDED[name] for name in ("enabled", "watching", "applies_to", "target", "direction", "action")
        }
        careful = {**stored, **strict, "on_failure": CLOSED if stored["checked_by"] != self.Check.DETECTORS else ""}
        if is_sent:
            careful |= {name: stored[name] for name in ("applies_to", "target", "direction")}
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
            problems["on_failure"] = _("Choose whether it fails closed or open.")
        if self.checked_by == self.Check.FUNCTION and self.function not in functions.registry:
            problems["function"] = _("No function named %(name)r with @guardrail. Registered: %(known)s") % {
                "name": self.function,
                "known": ", ".join(sorted(functions.registry)) or "-",
            }
        if self.checked_by == self.Check.SERVICE:
            row = HttpService.objects.filter(slug=self.service).first()
            if row is None:
                problems["service"] = _("No service named %(name)r.") % {"name": self.service}
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
            return {"detectors": _("Enter at least one.")}
        if {"bytes", "depth"} & set(kinds) and self.max_bytes is None and self.max_depth is None:
            return {"max_bytes": _("Enter the number of bytes or levels below.")}
        if self.action == self.Action.MASK and set(kinds) <= {"bytes", "depth"}:
            return {"action": _("Oversized values can't be masked. Choose “refuse”.")}
        return {}


def read() -> Guardrails:
    """Read those that are switched on, the watching ones too."""
    rows = readable_rows(McpGuardrail.objects.filter(enabled=True))
    has_services = any(row.checked_by == row.Check.SERVICE for row in rows)
    services = cast("Mapping[str, Service]", kind_of("http").read()) if has_services else {}
    return Guardrails(row.compiled(services) for row in rows)
