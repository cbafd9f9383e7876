"""What an attack does to, or looks for in, the hub's rows: `Hub.operate` runs these beside it."""

from __future__ import annotations

from typing import Any


def insert_key() -> None:
    """Write a key with all scopes into the database, past the application."""
    from sessions_app.models import ApiKey

    stranger = ApiKey(name="stranger", prefix="mcp_abcd", secret_hash="0" * 64, scopes=list(ApiKey.Scope.values))
    ApiKey.objects.bulk_create([stranger])


def own_key(name: str, username: str) -> str:
    """Return the text of a key that belongs to a person."""
    from django.contrib.auth.models import User

    from sessions_app.models import ApiKey

    return ApiKey.issue(name, scopes=["tools:list", "tools:call"], owner=User.objects.get(username=username))[1]


def reserve_tool(name: str, group: str, **fields: Any) -> None:
    """Make a tool that one new group may call."""
    from django.contrib.auth.models import Group

    from tools_catalog.models import McpToolDefinition

    McpToolDefinition.objects.create(name=name, **fields).groups.add(Group.objects.create(name=group))


def keep_secret(name: str, value: str, origins: str, users: str) -> None:
    from tools_catalog.models import Secret

    row = Secret(name=name, origins=origins, users=users)
    row.set_value(value)
    row.full_clean()
    row.save()


def add_service(slug: str, url: str, headers: dict[str, str]) -> None:
    from tools_catalog.models import HttpService

    row = HttpService(slug=slug, url=url, headers=headers)
    row.full_clean()
    row.save()


def fetch_description(url: str, service: str) -> str:
    """Fetch as the page that imports does; give why that failed, or nothing."""
    from asgiref.sync import async_to_sync

    from mcphub.features.importers import fetching

    try:
        async_to_sync(fetching.fetch)(url, "openapi", service)
    except Exception as error:
        return str(error)
    return ""


def where_is(words: list[str]) -> dict[str, list[str]]:
    """Return the columns of all tables that hold these words, as they are: word -> table.column."""
    from django.db import connection

    found: dict[str, list[str]] = {word: [] for word in words}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
            for column in columns:
                for word in words:
                    cursor.execute(
                        f'SELECT count(*) FROM "{table}" WHERE CAST("{column}" AS TEXT) LIKE %s', [f"%{word}%"]
                    )
                    if cursor.fetchone()[0]:
                        found[word].append(f"{table}.{column}")
    return found


def rows_of(word: str) -> list[dict[str, Any]]:
    """Return the recorded calls in which a word stands."""
    from invocations.models import McpToolInvocation

    return [
        {name: str(value) for name, value in row.items()}
        for row in McpToolInvocation.objects.order_by("pk").values()
        if any(word in str(value) for value in row.values())
    ]
