"""Binds secrets to origins, places and users, each existing one to those where it is used now."""

import re

import django.core.validators
import httpx2
from django.db import migrations, models

import tools_catalog.bindings
from tools_catalog.bindings import origin_of
from tools_catalog.egress import hosts

_NAMED = re.compile(r"\{(?:secret|basic):([^{}]+)\}")


def _origin(url):
    try:
        return origin_of(url)
    except (ValueError, httpx2.InvalidURL):
        return ""


def _named(value):
    """Give the secrets that are named anywhere in a JSON value."""
    if isinstance(value, str):
        yield from _NAMED.findall(value)
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _named(item)


def _by_name(prefix, texts):
    for name, text in texts.items() if isinstance(texts, dict) else ():
        for secret in _named(text):
            yield secret, f"{prefix}.{name}"


def _of_tool(configuration, services):
    service = services.get(configuration.get("service"))
    url = configuration.get("url") or ""
    whole = url if service is None else service.url.rstrip("/") + url
    address, _, query = whole.partition("?")
    in_url = {pair.partition("=")[0]: pair.partition("=")[2] for pair in query.split("&")}
    found = [*_by_name("query", in_url), *_by_name("query", configuration.get("query"))]
    found += _by_name("headers", configuration.get("headers"))
    found += [(secret, "body") for secret in _named(configuration.get("body"))]
    # Placeholders of the path are no part of the origin.
    origin = re.match(r"https?://[^/?#{}]+", address)
    return origin and _origin(origin[0]), found


def uses_of(apps):
    """Give (secret, origin, place, user) of all that is stored now; what cannot be read names none."""
    services = {row.slug: row for row in apps.get_model("tools_catalog", "HttpService").objects.all()}
    for row in services.values():
        for secret, place in _by_name("headers", row.headers):
            yield secret, _origin(row.url), place, f"service:{row.slug}"
    tools = apps.get_model("tools_catalog", "McpToolDefinition").objects.filter(backend="http")
    for row in tools.only("name", "configuration").iterator(chunk_size=200):
        if not isinstance(row.configuration, dict):
            continue
        origin, found = _of_tool(row.configuration, services)
        service = row.configuration.get("service")
        for secret, place in found if origin else ():
            yield secret, origin, place, f"service:{service}" if service else f"tool:{row.name}"
    for row in apps.get_model("tools_catalog", "McpConnection").objects.exclude(url=""):
        for secret, place in _by_name("headers", row.headers):
            yield secret, _origin(row.url), place, f"connection:{row.slug}"
    for row in apps.get_model("tools_catalog", "LaunchProfile").objects.all():
        for secret, place in _by_name("environment", row.environment):
            yield secret, f"{row.name}.stdio", place, ""


def _host(origin):
    return re.sub(r"^https?://|:[0-9]+$", "", origin)


def bind(apps, schema_editor):
    """Keep what works: a host becomes the origins on it that are used; of one that is not used https stays."""
    used = {}
    for secret, origin, place, user in uses_of(apps):
        used.setdefault(secret, []).append((origin, place, user))
    for row in apps.get_model("tools_catalog", "Secret").objects.all():
        uses = [use for use in used.get(row.name, ()) if hosts.covers(row.origins, _host(use[0]))]
        if uses:
            origins = sorted({origin for origin, _place, _user in uses})
            known = {_host(origin) for origin in origins}
            origins += [entry for entry in re.split(r"[\s,]+", row.origins) if entry and entry.lower() not in known]
            row.origins = " ".join(origins)
            row.places = " ".join(sorted({place for _origin, place, _user in uses}))
            row.users = " ".join(sorted({user for _origin, _place, user in uses if user}))
        row.save(update_fields=["origins", "places", "users"])


class Migration(migrations.Migration):
    dependencies = [("tools_catalog", "0002_child_confinement")]

    operations = [
        migrations.RemoveConstraint(model_name="secret", name="secret_hosts_present"),
        migrations.RenameField(model_name="secret", old_name="hosts", new_name="origins"),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.CheckConstraint(
                condition=models.Q(("origins", ""), _negated=True), name="secret_origins_present"
            ),
        ),
        migrations.AlterField(
            model_name="secret",
            name="origins",
            field=models.TextField(
                help_text="Only requests to these carry the secret: https://api.example.org https://api.example.org:8443 *.example.net. Without a scheme it is https. NAME.stdio is the launch profile NAME.",
                validators=[tools_catalog.bindings.check_origins],
                verbose_name="origins",
            ),
        ),
        migrations.AddField(
            model_name="secret",
            name="places",
            field=models.TextField(
                default="headers.Authorization environment.*",
                help_text="Where in a request it may stand: headers.NAME, query.NAME, environment.NAME (* for any name), or body.",
                validators=[tools_catalog.bindings.check_places],
                verbose_name="places",
            ),
        ),
        migrations.AddField(
            model_name="secret",
            name="users",
            field=models.TextField(
                blank=True,
                default="",
                help_text="Who may send it: service:NAME (with its tools), connection:NAME, tool:NAME. Profiles are approved by their origin.",
                validators=[tools_catalog.bindings.check_users],
                verbose_name="approved for",
            ),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="launchprofile",
            name="name",
            field=models.CharField(
                help_text="Secrets name NAME.stdio as their origin to be used in its environment.",
                max_length=32,
                unique=True,
                validators=[
                    django.core.validators.RegexValidator(
                        re.compile("^[a-z0-9][a-z0-9_-]{0,31}\\Z"),
                        "Use 1 to 32 of a-z 0-9 _ -, beginning with a letter or digit.",
                    )
                ],
                verbose_name="name",
            ),
        ),
        migrations.RunPython(bind, migrations.RunPython.noop),
    ]
