"""The base of every view of REST, whatever a host project's REST_FRAMEWORK says about views of its own."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from rest_framework.settings import DEFAULTS, IMPORT_STRINGS, APISettings
from rest_framework.views import APIView

from sessions_app.kit.rest.schema import HubSchema

SETTINGS: Final[Any] = APISettings(settings.HUB_REST, DEFAULTS, IMPORT_STRINGS)


class HubView(APIView):
    """A view with the hub's keys, permissions, formats and errors. DRF reads most of them while it defines a class."""

    settings = SETTINGS
    schema: Any = HubSchema()
    authentication_classes = SETTINGS.DEFAULT_AUTHENTICATION_CLASSES
    permission_classes = SETTINGS.DEFAULT_PERMISSION_CLASSES
    throttle_classes = SETTINGS.DEFAULT_THROTTLE_CLASSES
    parser_classes = SETTINGS.DEFAULT_PARSER_CLASSES
    renderer_classes = SETTINGS.DEFAULT_RENDERER_CLASSES
    content_negotiation_class = SETTINGS.DEFAULT_CONTENT_NEGOTIATION_CLASS
    metadata_class = SETTINGS.DEFAULT_METADATA_CLASS
    versioning_class = SETTINGS.DEFAULT_VERSIONING_CLASS
