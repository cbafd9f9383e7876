import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('auth', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='ProvisionedPerson',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('external_id', models.CharField(blank=True, max_length=255, verbose_name='id in the directory')),
                ('is_made_here', models.BooleanField(default=False, verbose_name='made by the directory')),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='made')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='changed')),
                ('removed_at', models.DateTimeField(blank=True, null=True, verbose_name='removed')),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='provisioned', to=settings.AUTH_USER_MODEL, verbose_name='person')),
            ],
            options={
                'verbose_name': 'person of a directory',
                'verbose_name_plural': 'people of a directory',
                'default_permissions': (),
                'indexes': [models.Index(condition=models.Q(('external_id', ''), _negated=True), fields=['external_id'], name='scim_person_external')],
            },
        ),
        migrations.CreateModel(
            name='ProvisionedGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('external_id', models.CharField(blank=True, max_length=255, verbose_name='id in the directory')),
                ('is_made_here', models.BooleanField(default=False, verbose_name='made by the directory')),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='made')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='changed')),
                ('removed_at', models.DateTimeField(blank=True, null=True, verbose_name='removed')),
                ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='provisioned', to='auth.group', verbose_name='group')),
            ],
            options={
                'verbose_name': 'group of a directory',
                'verbose_name_plural': 'groups of a directory',
                'default_permissions': (),
            },
        ),
    ]
