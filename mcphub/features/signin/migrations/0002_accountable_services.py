from django.db import migrations


def mark_services(apps, schema_editor):
    """Mark accounts of services: commands made them, so nobody is known to answer for them."""
    clients = apps.get_model('oauth2_provider', 'Application')
    accounts = clients.objects.filter(authorization_grant_type='client-credentials', user__isnull=False)
    row = apps.get_model('sessions_app', 'AccountablePerson')
    for account in set(accounts.values_list('user_id', flat=True)):
        row.objects.get_or_create(principal=f'user:{account}', person=None)


class Migration(migrations.Migration):

    dependencies = [
        ('signin', '0001_initial'),
        ('sessions_app', '0003_accountable_people'),
        ('oauth2_provider', '0022_refreshtoken_token_family_index'),
    ]

    operations = [migrations.RunPython(mark_services, migrations.RunPython.noop)]
