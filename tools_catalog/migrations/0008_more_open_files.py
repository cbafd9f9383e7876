"""Profiles with the former default of open files get the new one: runtimes with many modules run out of 256."""

from django.db import migrations

FORMER, NOW = 256, 1024


def raise_them(apps, schema_editor):
    profiles = apps.get_model("tools_catalog", "LaunchProfile").objects.using(schema_editor.connection.alias)
    profiles.filter(open_files=FORMER).update(open_files=NOW)


class Migration(migrations.Migration):
    dependencies = [("tools_catalog", "0007_era_of_upstreams")]

    operations = [migrations.RunPython(raise_them, migrations.RunPython.noop)]
