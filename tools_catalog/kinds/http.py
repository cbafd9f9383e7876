"""Tools that are requests to an HTTP API, alone or of a service that several tools share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import readable_rows
from sessions_app.protocol import schemas
from sessions_app.protocol.errors import EgressRefused
from tools_catalog import requirements
from tools_catalog.backends.http.backend import HttpBackend, HttpConfiguration, Service
from tools_catalog.bindings import TOOL, Destination
from tools_catalog.call.base import Json
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.kinds.registry import Basis, DefinedTool, Row, TakeCredentials, ToolKind, register
from tools_catalog.literals import parameter_with_credential
from tools_catalog.models.accounts import shared_sign_ins
from tools_catalog.models.secrets import Secret
from tools_catalog.models.services import HttpService, parsed
from tools_catalog.upstream import pool
from tools_catalog.upstream.spec import SHARED_ACCOUNT
from tools_catalog.vault import secret_for

if TYPE_CHECKING:
    from django import forms


@register
class HttpKind(ToolKind):
    name = "http"
    about = _("One request to an HTTP API, made from the arguments of the call.")
    label = _("HTTP API")
    short_label = "HTTP"
    PLACE = "service"

    def check(self, tool: DefinedTool) -> None:
        configuration = parsed(tool.configuration)
        try:
            EgressPolicy.from_settings().check_url(configuration.url.origin)
        except EgressRefused as error:
            raise ValueError(f"url: {error}") from error
        if configuration.retries and not tool.retry_safe:
            raise ValueError(_t("retries: only tools marked as retry-safe are called again."))
        if tool.enabled:
            to = configuration.destination.of(f"{TOOL}:{tool.name}")
            problem = Secret.problem_of((name, to.at(place)) for name, place in sorted(configuration.secret_uses))
            if problem:
                raise ValueError(problem)
        for name in sorted(configuration.used_arguments):
            if schemas.forbids(tool.input_schema, name):
                raise ValueError(
                    _t("The request uses {%(name)s}, but the input schema has no argument of this name.")
                    % {"name": name}
                )

    def without_credentials(self, tool: DefinedTool, before: Json, take: TakeCredentials) -> Json:
        given = tool.configuration
        if name := parameter_with_credential(str(given.get("url", ""))):
            raise ValueError(
                _t("url: an address can't contain a credential. Enter %(name)s under query.") % {"name": name}
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
        """Return the services that are switched on, by name."""
        found = HttpService.enabled_ones()
        shared = [service.id for service in found.values() if service.account == SHARED_ACCOUNT]
        signed_in = shared_sign_ins(HttpService.of, shared) if shared else {}
        return {
            slug: replace(service, state=f"{service.state} {signed_in.get(service.id, '')}".strip())
            for slug, service in found.items()
        }

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
            place="" if service is None else service.state,
            secrets=lambda backend: backend.secrets,
        )

    def source(self, configuration: Mapping[str, Json]) -> str:
        return str(configuration.get("service") or configuration.get("url", ""))

    def likeness(self, one: Json) -> Callable[[Json], bool]:
        """Tools are alike if one request may be that of both: by method and address, whatever query and body are."""
        services = _services()
        mine = _read(one, services)

        def is_alike(other: Json) -> bool:
            its = _read(other, services)
            return bool(one == other) if mine is None or its is None else _meet(mine, its)

        return is_alike

    def slugs_of(self, place: object) -> frozenset[str]:
        return frozenset((place.slug,)) if isinstance(place, HttpService) else frozenset()

    def moved(self, place: object, rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
        if not isinstance(place, HttpService):
            return
        before = _services()
        after = {**before, place.slug: place.plain()}
        at_origin = defaultdict(list)
        for row in rows:
            if (read := _read(row.configuration, after)) is not None:
                at_origin[read.method, read.url.plain_origin].append((row, read))
        for found in at_origin.values():
            for row, read in found:
                if row.configuration.get("service") != place.slug:
                    continue
                was = _read(row.configuration, before)
                for other, its in found:
                    if other is row or not _meet(read, its):
                        continue
                    it_was = _read(other.configuration, before)
                    if was is None or it_was is None or not _meet(was, it_was):
                        yield row, other

    def secrets(self, configuration: Json) -> Iterable[tuple[str, Destination]]:
        found = parsed(configuration)
        return [(name, found.destination.at(place)) for name, place in sorted(found.secret_uses)]

    def not_served(self, tool: DefinedTool) -> str:
        if not isinstance(tool.configuration, dict):
            return ""
        slug = tool.configuration.get("service")
        row = HttpService.objects.filter(slug=str(slug)).first()
        if slug is not None and (row is None or not row.enabled):
            return _t("Its service %(service)s is disabled.") % {"service": slug}
        return requirements.why_not(tool.requirements, row.plain() if row else None)

    def clean_form(self, form: forms.ModelForm, cleaned: dict[str, Json]) -> None:  # type: ignore[type-arg]
        if not cleaned.get("configuration"):
            form.add_error("configuration", _t("An HTTP tool needs a method and a URL here."))


def _services() -> dict[str, Service]:
    return {row.slug: row.plain() for row in readable_rows(HttpService.objects.all())}


def _read(configuration: Json, services: Mapping[str, Service]) -> HttpConfiguration | None:
    try:
        return HttpConfiguration.parse(configuration, services.get(str(configuration.get("service"))))
    except (AttributeError, ValueError):
        return None


def _meet(one: HttpConfiguration, other: HttpConfiguration) -> bool:
    return one.method == other.method and one.url.meets(other.url)


def _origin(configuration: Json) -> str:
    """Return the origin that a stored configuration requests; empty for one that cannot be read any more."""
    try:
        return parsed(configuration).destination.origin
    except ValueError:
        return ""
