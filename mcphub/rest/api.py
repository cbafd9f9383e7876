"""The addresses of REST: one router, the OpenAPI document, and its offline page.

urls.py includes it under `api/`, last: the last pattern answers an unknown address in JSON.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from django.conf import settings
from django.http import Http404, HttpResponse
from django.urls import get_script_prefix, get_urlconf, re_path
from django.utils import translation
from django.utils.encoding import force_bytes
from django.views.generic import RedirectView
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer2, OpenApiYamlRenderer2
from drf_spectacular.settings import patched_settings
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from invocations.rest.audit import CheckpointViewSet, ConsistencyViewSet, EventViewSet, ExportViewSet, ProofViewSet
from invocations.rest.calls import InvocationViewSet
from invocations.rest.mappings import ErrorMappingViewSet
from invocations.rest.redaction import RedactionRuleViewSet
from invocations.rest.retention import HoldViewSet, RetentionViewSet
from invocations.rest.tasks import TaskViewSet
from invocations.rest.verifications import VerificationViewSet
from mcphub.parts import RestAction, RestResource, SchemaHook
from mcphub.rest.root import RootView
from sessions_app.endpoints import public_address
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.rest.base import HubView
from sessions_app.kit.rest.routing import RestRouter
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.protocol.json import Json
from sessions_app.rest.keys import KeyViewSet
from sessions_app.rest.processes import ProcessViewSet
from sessions_app.rest.sessions import SessionViewSet
from sessions_app.rest.waiting import WaitingChangeViewSet
from sessions_app.rest.workspaces import WorkspaceViewSet
from tools_catalog.rest.accounts import AccountViewSet
from tools_catalog.rest.allowed_hosts import AllowedHostViewSet
from tools_catalog.rest.connections import ConnectionViewSet
from tools_catalog.rest.content import PromptViewSet, ResourceViewSet
from tools_catalog.rest.launch import LaunchProfileViewSet, SecretViewSet
from tools_catalog.rest.offers import OfferViewSet
from tools_catalog.rest.selections import ServiceViewSet, ToolsetViewSet
from tools_catalog.rest.tools import ToolDefinitionViewSet, ToolVersionViewSet


class JsonDocument(OpenApiJsonRenderer2):
    media_type = "application/json"


class NamedFormat(DefaultContentNegotiation):
    """`?format=json` or `?format=yaml`; else the format in Accept."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        named = format_suffix or request.query_params.get("format")
        return super().select_renderer(request, renderers, named)


class SchemaView(HubView, SpectacularAPIView):
    """The OpenAPI document, made once in each language and format: it takes seconds, and anybody may ask for it."""

    renderer_classes: list[type[BaseRenderer]] = [JsonDocument, OpenApiYamlRenderer2]
    content_negotiation_class = NamedFormat
    permission_classes = ()
    authentication_classes = ()
    generator_class = SchemaGenerator
    serve_public = True
    missing = "The schema is given as ?format=json or ?format=yaml."
    _made: ClassVar[dict[tuple[str, str, str], bytes]] = {}
    _making = threading.Lock()

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: object, **kwargs: object) -> HttpResponse:
        asked = request.query_params.get("lang", "")
        language = asked if asked in dict(settings.LANGUAGES) else translation.get_language()
        renderer = request.accepted_renderer
        with self._making:
            content = self._content((language, renderer.format, public_address()), request)
        headers = {"Content-Disposition": f'inline; filename="MCP Hub.{renderer.format}"'}
        return HttpResponse(content, content_type=renderer.media_type, headers=headers)

    def _content(self, key: tuple[str, str, str], request: Request) -> bytes:
        if key not in self._made:
            with translation.override(key[0]):
                make: Any = self.generator_class  # drf-spectacular has few types
                generator = make(urlconf=get_urlconf())
                with _patched(_of_host()):
                    document = generator.get_schema(request=request, public=self.serve_public)
                self._made[key] = force_bytes(request.accepted_renderer.render(document))
        return self._made[key]


_patched: Any = patched_settings  # drf-spectacular has few types


def _of_host() -> dict[str, Any]:
    """Return the settings that the document is made with where SPECTACULAR_SETTINGS are those of a host."""
    own = settings.HUB_OPENAPI if settings.MCPHUB_EMBEDDED else {}
    return {name: value for name, value in own.items() if not name.startswith("SERVE_")}


def add_server(result: dict[str, Json], generator: object, request: object, public: bool) -> dict[str, Json]:
    """Add the hub's address: its public one, else its path at the document's origin; a postprocessing hook."""
    here = get_script_prefix().rstrip("/") or "/"
    return {"openapi": result["openapi"], "servers": [{"url": public_address() or here}], **result}


def add_declared(result: Any, **given: Any) -> Any:
    """Let features add to the document; a postprocessing hook."""
    for hook in declared(SchemaHook):
        result = loaded(hook.function)(result, **given)
    return result


@extend_schema(exclude=True)
class UnknownAddress(HubView):
    authentication_classes = ()
    permission_classes = ()

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        self.format_kwarg = None  # without it DRF would not ask who gets a page
        raise Http404


def _docs() -> Any:
    """Return the view at `docs`: a page that shows the document, in a host, which has not its files, the document."""
    if settings.MCPHUB_EMBEDDED:
        return RedirectView.as_view(pattern_name="schema")
    return SpectacularSwaggerSplitView.as_view(url_name="schema", template_name="api/docs.html")


router = RestRouter()
router.register("invocations", InvocationViewSet)
router.register("sessions", SessionViewSet)
router.register("processes", ProcessViewSet)
router.register("tasks", TaskViewSet)
router.register("tool-definitions", ToolDefinitionViewSet)
router.register(r"tool-definitions/(?P<name>[^/]+)/versions", ToolVersionViewSet)
router.register("connections", ConnectionViewSet)
router.register("accounts", AccountViewSet)
router.register("launch-profiles", LaunchProfileViewSet)
router.register("secrets", SecretViewSet)
router.register("offers", OfferViewSet)
router.register("keys", KeyViewSet)
router.register("workspaces", WorkspaceViewSet)
router.register("services", ServiceViewSet)
router.register("allowed-hosts", AllowedHostViewSet)
router.register("toolsets", ToolsetViewSet)
router.register("redaction-rules", RedactionRuleViewSet)
router.register("resources", ResourceViewSet)
router.register("prompts", PromptViewSet)
router.register("waiting-changes", WaitingChangeViewSet)
router.register("error-mappings", ErrorMappingViewSet)
router.register("audit/checkpoints", CheckpointViewSet, basename="checkpoint")
router.register("audit/events", EventViewSet)
router.register("audit/holds", HoldViewSet)
router.register("audit/proofs", ProofViewSet, basename="proof")
router.register("audit/verifications", VerificationViewSet)
if not settings.MCPHUB_EMBEDDED:  # a host has its people in an admin of its own, and no lists of the console
    from mcphub.rest.groups import GroupViewSet
    from mcphub.rest.people import PersonViewSet
    from sessions_app.rest.saved_views import SavedViewViewSet

    router.register("people", PersonViewSet)
    router.register("groups", GroupViewSet)
    router.register("saved-views", SavedViewViewSet)
for resource in declared(RestResource):
    router.register(resource.prefix, loaded(resource.viewset), basename=resource.basename)

urlpatterns = [
    *router.urls,
    re_path(r"^$", RootView.as_view(), name="api-root"),
    re_path(r"^audit/retention/?$", RetentionViewSet.as_view({"get": "kept", "patch": "keep"})),
    re_path(r"^audit/export/?$", ExportViewSet.as_view({"get": "export"})),
    *(re_path(each.pattern, loaded(each.viewset).as_view(dict(each.actions))) for each in declared(RestAction)),
    re_path(
        r"^audit/consistency/(?P<old>[0-9]{1,18})/(?P<new>[0-9]{1,18})/?$",
        ConsistencyViewSet.as_view({"get": "between"}),
    ),
    re_path(r"^schema/?$", SchemaView.as_view(), name="schema"),
    re_path(r"^docs/?$", _docs(), name="docs"),
    re_path(r"", UnknownAddress.as_view()),
]
