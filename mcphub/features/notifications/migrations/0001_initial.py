import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import sessions_app.kit.fields
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=40, verbose_name='kind')),
                ('subject', models.CharField(blank=True, max_length=200, verbose_name='about')),
                ('person', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='person')),
                ('facts', sessions_app.kit.fields.JSONText(default=dict, verbose_name='facts')),
                ('is_current', models.BooleanField(default=True, editable=False)),
                ('count', models.PositiveIntegerField(default=1, verbose_name='times')),
                ('first_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='first')),
                ('last_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='last')),
                ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
            ],
            options={
                'verbose_name': 'notice',
                'verbose_name_plural': 'notices',
                'ordering': ['-id'],
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['kind', 'first_at'], name='notice_by_kind'), models.Index(fields=['last_at'], name='notice_by_time'), models.Index(fields=['ended_at', 'kind'], name='notice_open')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('is_current', True)), fields=('kind', 'subject'), name='notice_one_current')],
            },
        ),
        migrations.CreateModel(
            name='Subscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('mark', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notice_subscriptions', to=settings.AUTH_USER_MODEL, verbose_name='person')),
                ('name', models.CharField(max_length=60, verbose_name='name')),
                ('way', models.CharField(choices=[('console', 'Console'), ('email', 'E-mail'), ('webhook', 'Signed webhook'), ('slack', 'Chat, as Slack takes it'), ('teams', 'Chat, as Teams takes it')], max_length=10, verbose_name='where')),
                ('address_ciphertext', models.TextField(blank=True, editable=False)),
                ('shown_address', models.CharField(blank=True, editable=False, max_length=300, verbose_name='address')),
                ('secret_ciphertext', models.TextField(blank=True, editable=False)),
                ('kinds', sessions_app.kit.fields.JSONText(blank=True, default=list, verbose_name='kinds')),
                ('quiet_from', models.TimeField(blank=True, null=True, verbose_name='quiet from')),
                ('quiet_to', models.TimeField(blank=True, null=True, verbose_name='quiet to')),
                ('zone', models.CharField(default='UTC', help_text='Of the quiet hours, such as Europe/Berlin.', max_length=64, verbose_name='time zone')),
                ('alarms_at_once', models.BooleanField(default=True, help_text='Of the audit, and of calls not recorded.', verbose_name='alarms come in quiet hours, too')),
                ('group_seconds', models.PositiveIntegerField(default=30, help_text='What comes within this time is one e-mail or one message of a chat.', validators=[django.core.validators.MaxValueValidator(86400)], verbose_name='grouped within seconds')),
                ('language', models.CharField(choices=[('en', 'English'), ('ru', 'Русский')], default='en', max_length=8, verbose_name='language')),
                ('enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='made')),
                ('leased_by', models.CharField(blank=True, editable=False, max_length=64)),
                ('leased_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('last_error', models.CharField(blank=True, editable=False, max_length=500, verbose_name='last error')),
                ('failing_since', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='failing since')),
            ],
            options={
                'verbose_name': 'subscription',
                'verbose_name_plural': 'subscriptions',
                'ordering': ['person', 'name'],
                'constraints': [models.UniqueConstraint(fields=('person', 'name'), name='subscription_name_once'), models.CheckConstraint(condition=models.Q(('way__in', ['console', 'email', 'webhook', 'slack', 'teams'])), name='subscription_way_known'), models.CheckConstraint(condition=models.Q(models.Q(('quiet_from', None), ('quiet_to', None)), models.Q(models.Q(('quiet_from', None), _negated=True), models.Q(('quiet_to', None), _negated=True)), _connector='OR'), name='subscription_quiet_whole', violation_error_message='Say both when the quiet hours begin and when they end, or neither.'), models.UniqueConstraint(condition=models.Q(('way', 'console')), fields=('person',), name='subscription_one_console', violation_error_message='You have a subscription of the console already. Change that one.')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('mark', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='message')),
                ('notice', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='telling.notice', verbose_name='notice')),
                ('subscription', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='telling.subscription', verbose_name='subscription')),
                ('state', models.CharField(choices=[('waiting', 'Waits'), ('sent', 'Sent'), ('dead', 'Given up')], default='waiting', max_length=8, verbose_name='state')),
                ('tries', models.PositiveIntegerField(default=0, verbose_name='tries')),
                ('due_at', models.DateTimeField(verbose_name='due')),
                ('error', models.CharField(blank=True, max_length=500, verbose_name='last error')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='made')),
                ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
            ],
            options={
                'verbose_name': 'delivery',
                'verbose_name_plural': 'deliveries',
                'ordering': ['-id'],
                'permissions': [('replay_delivery', 'Can send deliveries once more')],
                'default_permissions': ('view',),
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['due_at'], name='delivery_due'), models.Index(fields=['subscription', 'state', 'due_at'], name='delivery_of'), models.Index(fields=['state', '-id'], name='delivery_by_state')],
                'constraints': [models.UniqueConstraint(fields=('notice', 'subscription'), name='delivery_once'), models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'sent', 'dead'])), name='delivery_state_known')],
            },
        ),
        migrations.CreateModel(
            name='Reader',
            fields=[
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('seen_upto', models.BigIntegerField(default=0)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Position',
            fields=[
                ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('value', models.BigIntegerField(default=0)),
                ('leased_by', models.CharField(blank=True, max_length=64)),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
    ]
