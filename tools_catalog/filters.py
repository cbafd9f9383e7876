"""The filters of the catalogue's lists, in the console and over REST."""

from __future__ import annotations

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.lists.filters import Choices, During, ListFilter, OneOf, Rows, TextIs, YesOrNo
from tools_catalog.kinds.http import HttpKind
from tools_catalog.kinds.registry import choices
from tools_catalog.models import (
    HttpService,
    McpConnection,
    McpToolDefinition,
    McpToolset,
    McpUpstreamTool,
    UpstreamAccount,
)
from tools_catalog.models.content import PromptBackend, ResourceBackend

_ENABLED = YesOrNo(name="enabled", label="")
_GROUPS = ListFilter(name="groups", label="", over_rest=False)
_UPDATED = During(name="updated", column="updated_at", label="", over_rest=False)


def tools_of(slug: str) -> Rows:
    """Return the tools that name the service."""
    return McpToolDefinition.objects.filter(_of_service(slug))


def _of_service(slug: str) -> Q:
    return Q(backend=HttpKind.name, configuration__contains=f'"service":"{slug}"')


def _services() -> Choices:
    return [(slug, slug) for slug in HttpService.objects.values_list("slug", flat=True)[:100]]


def _templates(is_template: str) -> Q:
    return Q(uri__contains="{") if is_template == "yes" else ~Q(uri__contains="{")


def _linked(status: str) -> Q:
    is_in_it = Q(link_status=status)
    return is_in_it | Q(link_status=None) if status == "disconnected" else is_in_it


TOOL_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="backend", label="", choices=choices),
    _ENABLED,
    YesOrNo(name="read_only", label=""),
    ListFilter(name="destructive", label="", over_rest=False),
    ListFilter(name="task_support", label="", over_rest=False),
    OneOf(
        name="service",
        column="configuration",
        label=_("service"),
        parameter="service",
        choices=_services,
        is_open=True,
        meant=_of_service,
        over_rest=False,
    ),
    _GROUPS,
    _UPDATED,
)
RESOURCE_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="backend", label="", choices=ResourceBackend.choices),
    OneOf(
        name="template",
        column="uri",
        label=_("kind"),
        parameter="template",
        choices=[("no", _("Resource")), ("yes", _("Template"))],
        meant=_templates,
        over_rest=False,
    ),
    _ENABLED,
    _GROUPS,
    _UPDATED,
    TextIs(name="uri"),
)
PROMPT_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="backend", label="", choices=PromptBackend.choices),
    _ENABLED,
    _GROUPS,
    _UPDATED,
)
SERVICE_FILTERS: tuple[ListFilter, ...] = (_ENABLED, TextIs(name="kind"))
TOOLSET_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="mode", label="", choices=McpToolset.Mode.choices),
    _ENABLED,
    _GROUPS,
)
ACCOUNT_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=UpstreamAccount.State.choices),
    TextIs(name="connection", column="connection__slug", label=""),
    TextIs(name="service", column="service__slug", label=""),
    TextIs(name="principal", label=""),
)
CONNECTION_FILTERS: tuple[ListFilter, ...] = (
    OneOf(
        name="state",
        column="link_status",
        label=_("state"),
        parameter="state",
        choices=McpConnection.Status.choices,
        meant=_linked,
        over_rest=False,
    ),
    OneOf(name="transport", label="", choices=McpConnection.Transport.choices),
    OneOf(name="policy", label="", choices=McpConnection.Policy.choices),
    _ENABLED,
)
OFFER_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=McpUpstreamTool.State.choices),
    OneOf(name="kind", label="", choices=McpUpstreamTool.Kind.choices),
    ListFilter(name="connection", label="", over_rest=False),
)
