"""Tools that are requests to an HTTP API, alone or of a service that several tools share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.protocol import schemas
from sessions_app.protocol.errors import EgressRefused
from tools_catalog import requirements
from tools_catalog.backends.http.backend import HttpBackend, HttpConfiguration, Service
from tools_catalog.bindings import TOOL, Destination
from tools_catalog.call.base import Json
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.kinds.registry import Basis, DefinedTool, TakeCredentials, ToolKind, register
from tools_catalog.literals import parameter_with_credential
from tools_catalog.models.secrets import Secret
from tools_catalog.models.services import HttpService, parsed
from tools_catalog.upstream import pool
from tools_catalog.vault import secret_for

if TYPE_CHECKING:
    from django import forms


@register
class HttpKind(ToolKind):
    name = "http"
    label = _("HTTP API")
    short_label = "HTTP"

    def check(self, tool: DefinedTool) -> None:
        configuration = parsed(tool.configuration)
        try:
            EgressPolicy.from_settings().check_url(configuration.url.origin)
        except EgressRefused as error:
            raise ValueError(f"url: {error}") from error
        if configuration.retries and not tool.retry_safe:
            raise ValueError(_t("retries: only a tool that is marked as retry-safe is called again."))
        if tool.enabled:
            to = configuration.destination.of(f"{TOOL}:{tool.name}")
            problem = Secret.problem_of((name, to.at(place)) for name, place in sorted(configuration.secret_uses))
            if problem:
                raise ValueError(problem)
        for name in sorted(configuration.used_arguments):
            if schemas.forbids(tool.input_schema, name):
                raise ValueError(
                    _t("{%(name)s} stands in the request, and the input schema allows no argument of this name.")
                    % {"name": name}
                )

    def without_credentials(self, tool: DefinedTool, before: Json, take: TakeCredentials) -> Json:
        given = tool.configuration
        if name := parameter_with_credential(str(given.get("url", ""))):
            raise ValueError(
                _t("url: a credential does not stand in an address. Write %(name)s under query.") % {"name": name}
            )
        to = Destination(parsed(given).destination.origin, (f"{TOOL}:{tool.name}",))
        is_moved = before is not None and _origin(before) != to.origin
        was = before or {}
        taken = {
            place: take(given[place], place, to, was.get(place), is_moved=is_moved)
            for place in ("headers", "query")
            if place in given
        }
        return {**given, **taken}

    def read(self) -> dict[str, Service]:
        """Give the services that are switched on, by name."""
        return HttpService.enabled_ones()

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        services = cast("Mapping[str, Service]", ground)
        name = tool.configuration.get("service")
        service = services.get(str(name))
        if name is not None and service is None:
            why_not = f"Its service {name} is switched off. Ask the hub's operator."
            service = Service(slug=str(name), url="https://switched-off.invalid", headers={})
        else:
            why_not = requirements.why_not(tool.requirements, service)
        return Basis(
            make=lambda: HttpBackend(
                HttpConfiguration.parse(tool.configuration, service),
                secret=secret_for,
                retries=tool.retry_safe,
                user=f"{TOOL}:{tool.name}",
                environment=lambda: pool.here().environment,
            ),
            key=f"{tool.name} {tool.retry_safe} {service}",
            why_not=why_not,
        )

    def source(self, configuration: Mapping[str, Json]) -> str:
        return str(configuration.get("service") or configuration.get("url", ""))

    def secrets(self, configuration: Json) -> Iterable[tuple[str, Destination]]:
        found = parsed(configuration)
        return [(name, found.destination.at(place)) for name, place in sorted(found.secret_uses)]

    def not_served(self, tool: DefinedTool) -> str:
        if not isinstance(tool.configuration, dict):
            return ""
        slug = tool.configuration.get("service")
        row = HttpService.objects.filter(slug=str(slug)).first()
        if slug is not None and (row is None or not row.enabled):
            return _t("Its service %(service)s is switched off.") % {"service": slug}
        return requirements.why_not(tool.requirements, row.plain() if row else None)

    def clean_form(self, form: forms.ModelForm, cleaned: dict[str, Json]) -> None:  # type: ignore[type-arg]
        if not cleaned.get("configuration"):
            form.add_error("configuration", _t("An HTTP tool needs its method and url here."))


def _origin(configuration: Json) -> str:
    """Give the origin that a stored configuration requests; empty for one that cannot be read any more."""
    try:
        return parsed(configuration).destination.origin
    except ValueError:
        return ""
