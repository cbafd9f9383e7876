"""The application that the server runs: MCP endpoints first, Django for the rest. Start reading here.

bytes -> routing.py -> transports/ (HTTP) -> server/ (MCP methods) -> invocations.calling (one call)
      -> Django: admin, REST
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from mcphub.routing import Router  # noqa: E402 - needs the settled apps

application = Router(django_application)
