import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import django.utils.timezone
import sessions_app.history.models
import sessions_app.kit.fields
import sessions_app.transports
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        # No need of its rows: with every table that knows a user before them its 22 migrations take ten times as long.
        ('oauth2_provider', '0022_refreshtoken_token_family_index'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('auth', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False, verbose_name='sequence')),
                ('happened_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='time')),
                ('kind', models.CharField(max_length=60, verbose_name='kind')),
                ('actor', models.CharField(blank=True, max_length=64, verbose_name='principal')),
                ('actor_label', models.CharField(blank=True, max_length=150, verbose_name='by')),
                ('via', models.CharField(blank=True, help_text='admin, rest, cli, bundle or system.', max_length=10, verbose_name='way')),
                ('subject_model', models.CharField(blank=True, max_length=100, verbose_name='model')),
                ('subject_id', models.CharField(blank=True, max_length=64, verbose_name='row')),
                ('subject_label', models.CharField(blank=True, max_length=200, verbose_name='subject')),
                ('before', sessions_app.kit.fields.JSONText(blank=True, null=True, verbose_name='before')),
                ('after', sessions_app.kit.fields.JSONText(blank=True, null=True, verbose_name='after')),
                ('reason', models.CharField(blank=True, max_length=500, verbose_name='reason')),
            ],
            options={
                'verbose_name': 'audit event',
                'verbose_name_plural': 'configuration history',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['kind', '-id'], name='audit_event_by_kind'), models.Index(fields=['actor', '-id'], name='audit_event_by_actor'), models.Index(fields=['happened_at'], name='audit_event_by_time'), models.Index(fields=['subject_model', 'subject_id', '-id'], name='audit_event_by_subject')],
            },
        ),
        migrations.CreateModel(
            name='WaitingChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject_model', models.CharField(max_length=100, verbose_name='model')),
                ('subject_id', models.CharField(max_length=64, verbose_name='row')),
                ('subject_label', models.CharField(max_length=200, verbose_name='subject')),
                ('before', sessions_app.kit.fields.JSONText(verbose_name='before')),
                ('after', sessions_app.kit.fields.JSONText(verbose_name='after')),
                ('digest', models.CharField(max_length=64, verbose_name='fingerprint')),
                ('state', models.CharField(choices=[('waiting', 'Waits'), ('confirmed', 'Confirmed'), ('rejected', 'Rejected'), ('replaced', 'Replaced by a later one')], default='waiting', max_length=10, verbose_name='state')),
                ('reason', models.CharField(blank=True, max_length=500, verbose_name='reason')),
                ('via', models.CharField(max_length=10, verbose_name='way')),
                ('proposed_by', models.CharField(max_length=64, verbose_name='principal')),
                ('proposer_label', models.CharField(max_length=150, verbose_name='proposed by')),
                ('person', models.CharField(blank=True, max_length=64)),
                ('decided_by', models.CharField(blank=True, max_length=150, verbose_name='decided by')),
                ('decided_at', models.DateTimeField(blank=True, null=True, verbose_name='decided')),
                ('answer', models.CharField(blank=True, max_length=500, verbose_name='answer')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='proposed')),
                ('expires_at', models.DateTimeField(default=sessions_app.history.models._end, verbose_name='expires')),
            ],
            options={
                'verbose_name': 'waiting change',
                'verbose_name_plural': 'waiting changes',
                'ordering': ['-id'],
                'permissions': [('decide_waitingchange', 'Can confirm or reject what somebody else proposed')],
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['subject_model', 'subject_id', 'state'], name='waiting_change_by_subject'), models.Index(fields=['proposed_by', 'state'], name='waiting_change_by_proposer'), models.Index(fields=['expires_at'], name='waiting_change_expiry')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'confirmed', 'rejected', 'replaced'])), name='waiting_change_state_known')],
            },
        ),
        migrations.CreateModel(
            name='LoginLimit',
            fields=[
                ('id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('address', 'Address'), ('name', 'Name'), ('pair', 'Pair'), ('all', 'All')], max_length=8)),
                ('address', models.CharField(blank=True, max_length=64)),
                ('name', models.CharField(blank=True, max_length=150)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('failed_at', models.DateTimeField(blank=True, null=True)),
                ('blocked_until', models.DateTimeField(blank=True, null=True)),
                ('refused', models.PositiveIntegerField(default=0)),
                ('known_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['failed_at'], name='login_limit_purge')],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Who or what holds the key.', max_length=100, verbose_name='name')),
                ('owner', models.ForeignKey(blank=True, help_text="Whose key it is: its calls are this person's, with tools of the groups that both have, and it ends with the person. Empty: the key of a service. Cannot be changed later.", null=True, on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to=settings.AUTH_USER_MODEL, verbose_name='person')),
                ('service', models.CharField(blank=True, help_text="The program that the key is for, where it is no person's. Several keys may name the same one.", max_length=100, verbose_name='service account')),
                ('prefix', models.CharField(editable=False, max_length=16, unique=True, verbose_name='prefix')),
                ('secret_hash', models.CharField(editable=False, max_length=64)),
                ('previous_hash', models.CharField(blank=True, editable=False, max_length=64)),
                ('previous_until', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='old text works until')),
                ('scopes', sessions_app.kit.fields.JSONText(blank=True, default=list, verbose_name='scopes')),
                ('calls_per_minute', models.PositiveIntegerField(blank=True, help_text='Empty: no limit.', null=True, verbose_name='calls per minute')),
                ('recorded_mib_per_day', models.PositiveIntegerField(blank=True, help_text='What its calls may fill of the audit. Empty: what every caller may, 0: no limit.', null=True, validators=[django.core.validators.MaxValueValidator(2000000)], verbose_name='MiB on record per day')),
                ('created_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='created by')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                ('reminded_of', models.DateTimeField(blank=True, editable=False, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='last used')),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='revoked')),
                ('groups', models.ManyToManyField(blank=True, help_text='Tools reserved to these groups are visible.', to='auth.group', verbose_name='groups')),
            ],
            options={
                'verbose_name': 'API key',
                'verbose_name_plural': 'API keys',
                'ordering': ['name', 'id'],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('previous_hash', ''), ('previous_until', None)), models.Q(models.Q(('previous_hash', ''), _negated=True), ('previous_until__isnull', False)), _connector='OR'), name='key_old_text_ends'), models.CheckConstraint(condition=models.Q(('owner', None), ('service', ''), _connector='OR'), name='key_of_person_or_service', violation_error_message='A key belongs to a person or to a service account, not to both.'), models.CheckConstraint(condition=models.Q(('owner', None), ('recorded_mib_per_day', None), _connector='OR'), name='key_of_person_shares_quota', violation_error_message="What a person's calls may fill of the audit holds for all their keys: leave the limit out.")],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('page', models.CharField(max_length=100)),
                ('name', models.CharField(max_length=60, verbose_name='name')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL)),
                ('is_shared', models.BooleanField(default=False, verbose_name='shared')),
                ('query', models.TextField(blank=True)),
            ],
            options={
                'verbose_name': 'saved view',
                'verbose_name_plural': 'saved views',
                'ordering': ['name', 'id'],
                'permissions': [('share_savedview', 'Can share views of lists with everybody')],
                'default_permissions': (),
                'indexes': [models.Index(fields=['page', 'name', 'id'], name='saved_view_by_page')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'page', 'name'), name='saved_view_named_once'), models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='saved_view_has_name')],
            },
        ),
        migrations.CreateModel(
            name='ListColumns',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='list_columns', to=settings.AUTH_USER_MODEL)),
                ('page', models.CharField(max_length=100)),
                ('columns', sessions_app.kit.fields.JSONText(default=list)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('owner', 'page'), name='list_columns_once')],
            },
        ),
        migrations.CreateModel(
            name='ServerProcess',
            fields=[
                ('process_id', models.CharField(max_length=32, primary_key=True, serialize=False, verbose_name='process')),
                ('version', models.CharField(max_length=32, verbose_name='version')),
                ('protocol_version', models.CharField(blank=True, help_text='The newest revision of MCP that it speaks.', max_length=10, verbose_name='protocol version')),
                ('status', models.CharField(choices=[('starting', 'Starting'), ('running', 'Running'), ('stopping', 'Stopping'), ('stopped', 'Stopped'), ('error', 'Error')], default='starting', max_length=10, verbose_name='status')),
                ('host', models.CharField(max_length=255, verbose_name='host')),
                ('pid', models.PositiveIntegerField(verbose_name='process number')),
                ('boot_mark', models.CharField(blank=True, help_text='Start time of the process as the system tells it.', max_length=64)),
                ('address', models.CharField(blank=True, max_length=255, verbose_name='address for other processes')),
                ('peer_address', models.CharField(blank=True, max_length=300, verbose_name='address for other machines')),
                ('started_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='started')),
                ('last_seen_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='last seen')),
                ('stopped_at', models.DateTimeField(blank=True, null=True, verbose_name='stopped')),
            ],
            options={
                'verbose_name': 'server process',
                'verbose_name_plural': 'server processes',
                'ordering': ['-started_at'],
                'indexes': [models.Index(fields=['status', 'last_seen_at'], name='process_liveness')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['starting', 'running', 'stopping', 'stopped', 'error'])), name='process_status_known'), models.CheckConstraint(condition=models.Q(('version__regex', '^\\d+\\.\\d+\\.\\d+')), name='process_version_semver')],
            },
        ),
        migrations.CreateModel(
            name='ProcessTransport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('process', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='transports', to='sessions_app.serverprocess', verbose_name='process')),
                ('type', models.CharField(choices=sessions_app.transports.choices, max_length=16, verbose_name='transport')),
                ('is_active', models.BooleanField(default=True, help_text='It takes what clients send.', verbose_name='active')),
                ('configuration', sessions_app.kit.fields.JSONText(blank=True, default=dict, verbose_name='configuration')),
                ('last_error', models.CharField(blank=True, max_length=500, verbose_name='last error')),
                ('last_error_at', models.DateTimeField(blank=True, null=True, verbose_name='time of the last error')),
            ],
            options={
                'verbose_name': 'transport of a process',
                'verbose_name_plural': 'transports of processes',
                'ordering': ['process', 'type'],
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('process', 'type'), name='process_transport_once'), models.CheckConstraint(condition=models.Q(('type', ''), _negated=True), name='process_transport_type_present'), models.CheckConstraint(condition=models.Q(models.Q(('last_error', ''), ('last_error_at', None)), models.Q(models.Q(('last_error', ''), _negated=True), ('last_error_at__isnull', False)), _connector='OR'), name='process_transport_error_has_time')],
            },
        ),
        migrations.CreateModel(
            name='McpSession',
            fields=[
                ('session_id', models.CharField(max_length=64, primary_key=True, serialize=False, verbose_name='session')),
                ('transport', models.CharField(choices=sessions_app.transports.choices, max_length=16, verbose_name='transport')),
                ('state', models.CharField(choices=[('created', 'Created'), ('initialized', 'Initialized'), ('closed', 'Closed'), ('expired', 'Expired')], default='created', max_length=12, verbose_name='state')),
                ('protocol_version', models.CharField(blank=True, max_length=10, verbose_name='protocol version')),
                ('client_name', models.CharField(blank=True, max_length=200, verbose_name='client')),
                ('client_version', models.CharField(blank=True, max_length=100, verbose_name='client version')),
                ('client_capabilities', sessions_app.kit.fields.JSONText(blank=True, default=dict, verbose_name='client capabilities')),
                ('log_level', models.CharField(blank=True, max_length=10, verbose_name='log level')),
                ('principal', models.CharField(help_text='The only caller that may use the session.', max_length=64, verbose_name='principal')),
                ('caller_label', models.CharField(blank=True, max_length=150, verbose_name='caller')),
                ('is_implicit', models.BooleanField(default=False, help_text='Stands for a stateless caller and its client program.', verbose_name='implicit')),
                ('implicit_key', models.CharField(blank=True, editable=False, max_length=64, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='created')),
                ('initialized_at', models.DateTimeField(blank=True, null=True, verbose_name='initialized')),
                ('last_activity_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='last activity')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
                ('end_reason', models.CharField(blank=True, max_length=100, verbose_name='end reason')),
            ],
            options={
                'verbose_name': 'MCP session',
                'verbose_name_plural': 'MCP sessions',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['state', 'expires_at'], name='session_sweep'), models.Index(fields=['principal', 'state'], name='session_by_caller'), models.Index(fields=['-created_at'], name='session_recent'), models.Index(fields=['state', '-created_at'], name='session_recent_by_state')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['created', 'initialized', 'closed', 'expired'])), name='session_state_known'), models.CheckConstraint(condition=models.Q(('transport', ''), _negated=True), name='session_transport_present'), models.CheckConstraint(condition=models.Q(('session_id', ''), _negated=True), name='session_id_present'), models.CheckConstraint(condition=models.Q(('last_activity_at__gte', models.F('created_at'))), name='session_activity_after_creation'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'initialized'), _negated=True), ('initialized_at__isnull', False), _connector='OR'), name='session_initialized_by_initialize'), models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('state__in', ['closed', 'expired'])), models.Q(('ended_at__isnull', True), ('state__in', ['created', 'initialized'])), _connector='OR'), name='session_ended_when_terminal'), models.UniqueConstraint(condition=models.Q(('state', 'created')), fields=('implicit_key',), name='session_one_implicit_per_caller')],
            },
        ),
        migrations.CreateModel(
            name='RemoteConnection',
            fields=[
                ('session', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='remote_connection', serialize=False, to='sessions_app.mcpsession')),
                ('process_id', models.CharField(max_length=32)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('request_id', models.CharField(blank=True, max_length=300)),
                ('method', models.CharField(blank=True, max_length=100)),
                ('received_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('finished_at', None), ('received_at', None), ('request_id', '')), models.Q(models.Q(('request_id', ''), _negated=True), ('received_at__isnull', False)), _connector='OR'), name='remote_request_received')],
            },
        ),
        migrations.CreateModel(
            name='ResourceSubscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='sessions_app.mcpsession')),
                ('uri', models.CharField(max_length=2000)),
            ],
            options={
                'indexes': [models.Index(fields=['uri'], name='subscription_by_resource')],
                'constraints': [models.UniqueConstraint(fields=('session', 'uri'), name='subscription_once')],
            },
        ),
        migrations.CreateModel(
            name='StreamEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session_id', models.CharField(max_length=64)),
                ('stream', models.CharField(max_length=16)),
                ('number', models.PositiveIntegerField()),
                ('message', models.TextField(blank=True)),
                ('is_last', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['created_at'], name='stream_event_purge')],
                'constraints': [models.UniqueConstraint(fields=('session_id', 'stream', 'number'), name='stream_event_once')],
            },
        ),
        migrations.CreateModel(
            name='RateLimitBucket',
            fields=[
                ('client_id', models.CharField(max_length=150, primary_key=True, serialize=False, verbose_name='client')),
                ('tokens', models.FloatField(verbose_name='tokens')),
                ('capacity', models.PositiveIntegerField(default=10, verbose_name='capacity')),
                ('refill_per_second', models.FloatField(verbose_name='refill per second')),
                ('last_refill', models.DateTimeField(verbose_name='last refill')),
                ('request_count', models.PositiveBigIntegerField(default=0, verbose_name='requests')),
                ('last_request', models.DateTimeField(blank=True, null=True, verbose_name='last request')),
            ],
            options={
                'verbose_name': 'rate limit bucket',
                'verbose_name_plural': 'rate limit buckets',
                'ordering': ['client_id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('tokens__gte', django.db.models.expressions.CombinedExpression(models.F('capacity'), '*', models.Value(-1))), ('tokens__lte', models.F('capacity'))), name='bucket_tokens_or_debt'), models.CheckConstraint(condition=models.Q(('refill_per_second__gt', 0)), name='bucket_refills')],
            },
        ),
        migrations.CreateModel(
            name='BusEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(max_length=40)),
                ('payload', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='bus_purge')],
            },
        ),
        migrations.CreateModel(
            name='RefusedRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fingerprint', models.CharField(max_length=64, unique=True)),
                ('status', models.PositiveSmallIntegerField()),
                ('code', models.CharField(max_length=40)),
                ('path', models.CharField(blank=True, max_length=200)),
                ('address', models.CharField(blank=True, max_length=64)),
                ('agent', models.CharField(blank=True, max_length=200)),
                ('origin', models.CharField(blank=True, max_length=200)),
                ('key_prefix', models.CharField(blank=True, max_length=16)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('count', models.PositiveIntegerField(default=1)),
                ('last_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['-last_at'], name='refused_request_recent')],
            },
        ),
    ]
