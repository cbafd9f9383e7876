"""Writes the skeleton of a feature: a folder under mcphub/features, a test that passes, and a line in the documents.

make feature NAME=greetings
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from string import Template

from mcphub import feature_list

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/operate/features.md")

FILES = {
    "mcphub/features/$name/__init__.py": "",
    "mcphub/features/$name/apps.py": """\
from django.utils.translation import gettext_lazy as _

from invocations.stages import CallStage
from mcphub.parts import HubCommand, ConsolePage, PageRoutes, RestAction
from sessions_app.kit.features import FeatureConfig


class ${camel}Config(FeatureConfig):
    name = "mcphub.features.$name"
    label = "$name"
    verbose_name = _("$title")
    parts = (
        CallStage("mcphub.features.$name.stage:${camel}Stage"),
        PageRoutes("mcphub.features.$name.pages", below="admin/"),
        ConsolePage("settings", _("$title"), "extension", "$dashed"),
        RestAction(r"^$dashed/?$$", "mcphub.features.$name.rest:${camel}ViewSet", {"get": "show"}),
        HubCommand("$dashed", "show the state of $words", "mcphub.features.$name.command"),
    )
""",
    "mcphub/features/$name/state.py": '''\
"""The state of $words, as the page, the endpoint and the command show it."""

from __future__ import annotations

from sessions_app.protocol.json import Json


def state() -> dict[str, Json]:
    """Return what there is to show."""
    return {"feature": "$name"}
''',
    "mcphub/features/$name/stage.py": '''\
"""The stage of $words: each call that fits its tool passes it before the backend runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invocations.stages import Place, Proceed, Stage, StageAnswer

if TYPE_CHECKING:
    from invocations.call.call import Call
    from invocations.calling import Calls
    from invocations.configuration import Configuration
    from tools_catalog.catalog.snapshot import Tool


class ${camel}Stage(Stage):
    place = Place.RULES

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return True

    async def decide(self, call: Call) -> StageAnswer:
        return Proceed(call)
''',
    "mcphub/features/$name/pages.py": '''\
"""The page of $words in the console."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _

from mcphub.features.$name.state import state


def show(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("invocations.view_mcptoolinvocation"):
        raise PermissionDenied
    context = {**admin.site.each_context(request), "title": _("$title"), "state": state()}
    return TemplateResponse(request, "$name/state.html", context)


urlpatterns = [path("$dashed/", admin.site.admin_view(show), name="$dashed")]
''',
    "mcphub/features/$name/templates/$name/state.html": """\
{% extends "admin/base_site.html" %}
{% block content %}
<section class="hub-card">
  <dl>{% for key, value in state.items %}<dt>{{ key }}</dt><dd>{{ value }}</dd>{% endfor %}</dl>
</section>
{% endblock %}
""",
    "mcphub/features/$name/rest.py": '''\
"""REST over the state of $words."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.$name.state import state


class ${camel}Serializer(serializers.Serializer[Any]):
    feature = serializers.CharField(help_text="The name of the feature.")


class ${camel}ViewSet(viewsets.ViewSet):
    required_scope = {"read": "audit:read"}
    required_permission = {"read": "invocations.view_mcptoolinvocation"}

    @extend_schema(
        operation_id="$name",
        tags=["$dashed"],
        summary="The state of $words",
        responses=${camel}Serializer,
    )
    def show(self, request: Request) -> Response:
        return Response(${camel}Serializer(state()).data)
''',
    "mcphub/features/$name/command.py": '''\
"""`mcphub $dashed`: the state of $words."""

from __future__ import annotations

import argparse

from mcphub.commands.rows import print_json
from mcphub.commands.stop import start_django


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    start_django()
    from mcphub.features.$name.state import state

    if options.json:
        print_json(state())
    else:
        for key, value in state().items():
            print(f"{key}: {value}")
    return 0
''',
    "tests/features/test_$name.py": '''\
"""$title: the stage, the page, the endpoint and the command."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any, cast

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from invocations.stages import Proceed
from mcphub.features.$name import command
from mcphub.features.$name.stage import ${camel}Stage


def test_a_call_proceeds() -> None:
    call = cast(Any, object())
    assert asyncio.run(${camel}Stage(cast(Any, None)).decide(call)) == Proceed(call)


@pytest.mark.django_db
def test_the_page_and_the_endpoint_show_the_state(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    assert b"$name" in client.get(reverse("$dashed")).content
    assert client.get("/api/$dashed/").json() == {"feature": "$name"}


def test_the_command_prints_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(Namespace(json=False)) == 0
    assert capsys.readouterr().out == "feature: $name\\n"
''',
}


def write(name: str, root: Path = ROOT) -> list[Path]:
    """Write the files, and a line in the documents; return their paths."""
    words = name.replace("_", " ")
    camel = "".join(word.capitalize() for word in name.split("_"))
    values = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "words": words,
        "title": words.capitalize(),
        "camel": camel,
    }
    written = []
    for path, text in FILES.items():
        file = root / Template(path).substitute(values)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(values))
        written.append(file)
    page = root / PAGE
    page.write_text(f"{page.read_text().rstrip()}\n| `{name}` | {values['title']} | |\n")
    return [*written, page]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make feature NAME=", description=__doc__)
    parser.add_argument("name")
    name = parser.parse_args().name
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        parser.error(f"{name!r} is no name of a folder: write small letters, digits and _, such as call_notes")
    if name in feature_list.known() or (ROOT / "mcphub" / "features" / name).exists():
        parser.error(f"there is a feature {name} already")
    for path in write(name):
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
