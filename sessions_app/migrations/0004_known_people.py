from django.conf import settings
from django.db import migrations

_KEY = 'sessions_app.apikey'


def keep_people(apps, schema_editor):
    """Let the people answer for keys who own, made or rotated them, as far as columns and history know them."""
    keys, events = apps.get_model('sessions_app', 'ApiKey'), apps.get_model('sessions_app', 'AuditEvent')
    people = set(apps.get_model(settings.AUTH_USER_MODEL).objects.values_list('pk', flat=True))
    given = {}
    for event in events.objects.filter(subject_model=_KEY, kind__in=['key.created', 'key.changed']).order_by('pk').iterator():
        if 'secret_hash' in (event.after or {}):
            given.setdefault(event.subject_id, []).append(event.actor)
    found = {}
    for key in keys.objects.order_by('pk').only('pk', 'owner_id', 'created_by_id').iterator():
        behind = {key.owner_id, key.created_by_id} - {None}
        strangers = False
        for actor in given.get(str(key.pk), ()):
            kind, _colon, number = actor.partition(':')
            if kind == 'user':
                behind.add(int(number))
            else:  # a key that was made before, or the machine
                more = found.get(actor, {None})
                behind |= more - {None}
                strangers = strangers or (None in more and key.owner_id is None)
        behind &= people
        found[f'key:{key.pk}'] = behind | ({None} if strangers or not behind else set())
    row = apps.get_model('sessions_app', 'AccountablePerson')
    rows = (row(principal=principal, person_id=person) for principal, persons in found.items() for person in persons)
    row.objects.bulk_create(rows, batch_size=500)


def keep_proposers(apps, schema_editor):
    changes = apps.get_model('sessions_app', 'WaitingChange')
    for change in changes.objects.only('pk', 'person').iterator():
        number = change.person.removeprefix('user:')
        known = [int(number)] if number.isdecimal() else []
        changes.objects.filter(pk=change.pk).update(people=known, needed=1 if known else 2)


def keep_persons(apps, schema_editor):
    changes = apps.get_model('sessions_app', 'WaitingChange')
    for change in changes.objects.only('pk', 'people').iterator():
        changes.objects.filter(pk=change.pk).update(person=f'user:{change.people[0]}' if change.people else '')


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0003_accountable_people'),
    ]

    operations = [
        migrations.RunPython(keep_people, migrations.RunPython.noop),
        migrations.RunPython(keep_proposers, keep_persons),
        migrations.RemoveField(
            model_name='waitingchange',
            name='person',
        ),
    ]
