import django.contrib.auth.validators
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import sessions_app.kit.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='LoginProvider',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Stands on the button of the login page.', max_length=60, unique=True, verbose_name='name')),
                ('kind', models.CharField(choices=[('oidc', 'OpenID Connect'), ('saml', 'SAML 2.0')], default='oidc', help_text='Cannot be changed later.', max_length=8, verbose_name='kind')),
                ('slug', models.CharField(help_text='Is part of the address that the provider leads back to, and cannot be changed.', max_length=40, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9-]*\\Z', 'Write small letters, digits and hyphens.')], verbose_name='short name')),
                ('issuer', models.CharField(help_text='As the provider writes it itself, such as https://login.example/realms/staff. Of SAML the entity id.', max_length=300, verbose_name='issuer')),
                ('client_id', models.CharField(help_text="What the provider calls the hub. Of SAML the hub's entity id.", max_length=300, verbose_name='client id')),
                ('login_address', models.CharField(blank=True, help_text='SAML alone: where the provider takes requests by redirect (HTTP-Redirect).', max_length=500, verbose_name='login address')),
                ('certificates', models.TextField(blank=True, help_text='SAML alone: one or more with which the provider signs, in PEM. Enter the next one before it begins.', max_length=40000, verbose_name='certificates')),
                ('ciphertext', models.TextField(blank=True, editable=False)),
                ('mask', models.CharField(blank=True, editable=False, max_length=40, verbose_name='client secret')),
                ('scopes', models.CharField(default='openid profile email', help_text='What the hub asks for. `openid` must be among them; some providers give groups for a scope.', max_length=300, verbose_name='scopes')),
                ('username_claim', models.CharField(default='preferred_username', help_text='Names a new account here. It never finds an existing account.', max_length=200, validators=[django.core.validators.RegexValidator('^[^\\s\\x00]{1,200}\\Z', 'Write the name of one claim, without blanks.')], verbose_name='claim with the name')),
                ('email_claim', models.CharField(default='email', max_length=200, validators=[django.core.validators.RegexValidator('^[^\\s\\x00]{1,200}\\Z', 'Write the name of one claim, without blanks.')], verbose_name='claim with the e-mail address')),
                ('groups_claim', models.CharField(default='groups', max_length=200, validators=[django.core.validators.RegexValidator('^[^\\s\\x00]{1,200}\\Z', 'Write the name of one claim, without blanks.')], verbose_name='claim with the groups')),
                ('groups', sessions_app.kit.fields.JSONText(blank=True, default=dict, help_text='Values of that claim and the groups they give here, such as {"mcp-admins": ["Operator"]}. Groups that are named here follow the claim at each login; others stay as they are. A group with rights in the console opens the console.', verbose_name='groups')),
                ('admits', models.CharField(choices=[('everybody', 'Everybody who has an account there'), ('mapped', 'Whoever is in a group that is mapped below'), ('invited', 'Only people who are invited, or have an account here and linked it')], default='invited', max_length=10, verbose_name='who may come')),
                ('directory_claim', models.CharField(blank=True, help_text='Where a directory sends people by SCIM: the claim that has what the directory sends as externalId. It leads to the account that the directory made. Empty: people press Link once, or are invited.', max_length=200, validators=[django.core.validators.RegexValidator('^[^\\s\\x00]{1,200}\\Z', 'Write the name of one claim, without blanks.')], verbose_name='claim with the id in the directory')),
                ('asks_second_factor', models.BooleanField(default=False, help_text='Off: the provider sees to that itself.', verbose_name='asks for the second factor of the hub')),
                ('enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='changed')),
            ],
            options={
                'verbose_name': 'login provider',
                'verbose_name_plural': 'login providers',
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('issuer', ''), _negated=True), name='login_provider_has_issuer'), models.CheckConstraint(condition=models.Q(('client_id', ''), _negated=True), name='login_provider_has_client'), models.CheckConstraint(condition=models.Q(models.Q(('certificates', ''), ('kind', 'oidc'), ('login_address', '')), models.Q(('kind', 'saml'), models.Q(('login_address', ''), _negated=True), models.Q(('certificates', ''), _negated=True)), _connector='OR'), name='login_provider_kind_whole', violation_error_message='SAML needs a login address and a certificate; OpenID Connect has neither.'), models.CheckConstraint(condition=models.Q(('admits__in', ['everybody', 'mapped', 'invited'])), name='login_provider_admits_known')],
            },
        ),
        migrations.CreateModel(
            name='LinkedIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='linked_identities', to=settings.AUTH_USER_MODEL, verbose_name='person')),
                ('issuer', models.CharField(max_length=500, verbose_name='issuer')),
                ('subject', models.CharField(max_length=255, verbose_name='subject')),
                ('issuer_name', models.CharField(max_length=60, verbose_name='known as')),
                ('by_name', models.BooleanField(default=False, verbose_name='by the name alone')),
                ('last_nonce', models.CharField(blank=True, editable=False, max_length=64)),
                ('linked_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='linked')),
                ('last_login_at', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
            ],
            options={
                'verbose_name': 'linked identity',
                'verbose_name_plural': 'linked identities',
                'ordering': ['-linked_at', '-pk'],
                'default_permissions': ('view', 'change', 'delete'),
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='login_identity_once'), models.UniqueConstraint(condition=models.Q(('by_name', True)), fields=('issuer', 'user'), name='login_identity_one_by_name')],
            },
        ),
        migrations.CreateModel(
            name='SecondFactor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='second_factors', to=settings.AUTH_USER_MODEL, verbose_name='person')),
                ('kind', models.CharField(choices=[('app', 'Authenticator app'), ('passkey', 'Passkey'), ('codes', 'Recovery codes')], max_length=8, verbose_name='kind')),
                ('name', models.CharField(blank=True, max_length=60, verbose_name='name')),
                ('ciphertext', models.TextField(editable=False)),
                ('credential', models.CharField(blank=True, editable=False, max_length=64)),
                ('last_step', models.BigIntegerField(default=0, editable=False)),
                ('last_challenge', models.CharField(blank=True, editable=False, max_length=64)),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='made')),
                ('used_at', models.DateTimeField(blank=True, null=True, verbose_name='last used')),
            ],
            options={
                'verbose_name': 'second factor',
                'verbose_name_plural': 'second factors',
                'ordering': ['user__username', 'kind', 'pk'],
                'permissions': [('needs_secondfactor', 'Must log in with a second factor')],
                'default_permissions': ('view', 'delete'),
                'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'passkey'), _negated=True), fields=('user', 'kind'), name='login_second_factor_once'), models.UniqueConstraint(condition=models.Q(('credential', ''), _negated=True), fields=('credential',), name='login_second_factor_credential_once'), models.CheckConstraint(condition=models.Q(('kind__in', ['app', 'passkey', 'codes'])), name='login_second_factor_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('username', models.CharField(max_length=150, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='e-mail address')),
                ('groups', sessions_app.kit.fields.JSONText(blank=True, default=list, verbose_name='groups')),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='made')),
                ('expires_at', models.DateTimeField(verbose_name='ends')),
                ('used_at', models.DateTimeField(blank=True, null=True, verbose_name='used')),
            ],
            options={
                'verbose_name': 'invitation',
                'verbose_name_plural': 'invitations',
                'ordering': ['-made_at', '-pk'],
                'default_permissions': ('view', 'add', 'delete'),
            },
        ),
    ]
