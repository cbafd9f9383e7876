"""The files of a new project with the hub in it: one model, one viewset, one function, and their tests."""

from __future__ import annotations

import keyword
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_APP: Final = "notes"
_FILES: Final = {
    "manage.py": """#!/usr/bin/env python
import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "NAME.settings")
    execute_from_command_line(sys.argv)
""",
    "NAME/__init__.py": "",
    "NAME/settings.py": '''"""Settings of NAME. What differs between machines comes from the environment."""

import os
from pathlib import Path

import dj_database_url

from mcphub.embedding import SQLITE_OPTIONS, add_hub

BASE_DIR = Path(__file__).resolve().parent.parent
DEBUG = os.environ.get("DEBUG", "1") == "1"
SECRET_KEY = os.environ.get("SECRET_KEY", "SECRET" if DEBUG else "")
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1 localhost").split()

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "notes",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "NAME.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": dj_database_url.config("DATABASE_URL", default=f"sqlite:///{BASE_DIR}/db.sqlite3")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = SQLITE_OPTIONS
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
TIME_ZONE = "UTC"
USE_TZ = True
REST_FRAMEWORK = {
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 50,
}

MCPHUB = {"PUBLIC_URL": "http://127.0.0.1:8000/hub"}
add_hub(globals())
''',
    "NAME/urls.py": """from django.contrib import admin
from django.urls import include, path
from rest_framework.routers import SimpleRouter

from notes.views import NoteViewSet

router = SimpleRouter()
router.register("notes", NoteViewSet)
urlpatterns = [path("admin/", admin.site.urls), path("api/", include(router.urls))]
""",
    "NAME/asgi.py": """import os

from django.core.asgi import get_asgi_application

from mcphub.embedding import mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "NAME.settings")
application = mount(get_asgi_application())
""",
    "notes/__init__.py": "",
    "notes/models.py": """from django.conf import settings
from django.db import models


class Note(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    text = models.TextField()
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.text[:50]
""",
    "notes/migrations/__init__.py": "",
    "notes/migrations/0001_initial.py": """import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="Note",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("text", models.TextField()),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL),
                ),
            ],
        )
    ]
""",
    "notes/views.py": '''from rest_framework import serializers, viewsets

from notes.models import Note


class NoteSerializer(serializers.ModelSerializer):
    class Meta:
        model = Note
        fields = ["id", "text", "made_at"]


class NoteViewSet(viewsets.ModelViewSet):
    """Notes of the person who asks."""

    queryset = Note.objects.order_by("-made_at")
    serializer_class = NoteSerializer

    def get_queryset(self):
        return super().get_queryset().filter(owner_id=self.request.user.pk)

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)
''',
    "notes/tools.py": '''"""Tools for models: each start of the server brings them into the hub's catalogue."""

from mcphub.embedding.viewsets import register_viewset
from notes.views import NoteViewSet
from tools_catalog.backends.python import tool

register_viewset(NoteViewSet, actions=["list", "retrieve", "create", "destroy"])


@tool(read_only=True, open_world=False)
def count_words(text: str) -> int:
    """Return how many words a text has."""
    return len(text.split())
''',
    "notes/tests.py": """from django.contrib.auth import get_user_model
from django.test import TestCase

from mcphub.testing import Client


class ToolsTests(TestCase):
    def setUp(self):
        self.ann = get_user_model().objects.create_user("ann")

    def test_words_are_counted(self):
        self.assertEqual(Client(self.ann).call("count_words", text="a b c").data, {"result": 3})

    def test_people_see_their_own_notes(self):
        made = Client(self.ann).call("note_create", text="Buy milk.")
        self.assertEqual(made.record.principal, f"user:{self.ann.pk}")
        self.assertEqual(Client(self.ann).call("note_list").data["count"], 1)
        bob = get_user_model().objects.create_user("bob")
        self.assertEqual(Client(bob).call("note_list").data["count"], 0)
""",
    "compose.yaml": """# PostgreSQL for NAME: `docker compose up -d`, then
# DATABASE_URL=postgres://NAME:NAME@127.0.0.1:5432/NAME
services:
  database:
    image: postgres:17
    environment: {POSTGRES_USER: NAME, POSTGRES_PASSWORD: NAME, POSTGRES_DB: NAME}
    ports: ["127.0.0.1:5432:5432"]
    volumes: ["database:/var/lib/postgresql/data"]
volumes:
  database:
""",
    ".gitignore": "db.sqlite3*\n__pycache__/\nmcphub-data/\n",
}
"""Path -> text. NAME stands for the project's name, SECRET for a key of its own."""


class NameRefused(ValueError):
    """The name of a project that cannot be made."""


def write_project(name: str, folder: Path) -> list[Path]:
    """Write the project into an empty or new folder; return its files. Raises NameRefused, FileExistsError, OSError."""
    if not name.isidentifier() or keyword.iskeyword(name) or not name.islower():
        raise NameRefused(f"{name!r} is no name of a Python package. Choose letters, digits and _, such as shop.")
    if name == _APP or find_spec(name) is not None:
        raise NameRefused(f"There is a Python module {name} already. Choose another name.")
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} has files already. Choose a new folder.")
    secret = secrets.token_urlsafe(50)
    written = []
    for path, text in _FILES.items():
        file = folder / path.replace("NAME", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("NAME", name).replace('"SECRET"', f'"{secret}"'))
        written.append(file)
    (folder / "manage.py").chmod(0o755)
    return written
