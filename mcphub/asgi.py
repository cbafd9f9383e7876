"""The application that the server runs: MCP endpoints first, Django for the rest. Start reading here.

bytes -> routing.py -> transports/ (HTTP) -> server/ (MCP methods) -> invocations.calling (one call)
      -> Django: admin, REST
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

django_application = get_asgi_application()

from mcphub.routing import Router  # noqa: E402 - needs the settled apps

get_resolver().url_patterns  # noqa: B018 - imports the pages now, not in the first request
application = Router(django_application)
