import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import mcphub.features.signin.issuers.models
import sessions_app.kit.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '__first__'),
        ('oauth2_provider', '0022_refreshtoken_token_family_index'),
    ]

    operations = [
        migrations.CreateModel(
            name='Issuer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_-]*\\Z')], verbose_name='name')),
                ('issuer', models.CharField(help_text='Letter by letter as its tokens and its document name it, such as https://login.example/realms/work.', max_length=500, unique=True, verbose_name='issuer')),
                ('enabled', models.BooleanField(default=False, help_text='Off: its tokens open nothing.', verbose_name='enabled')),
                ('announced', models.BooleanField(default=False, help_text="The hub's documents name it beside the hub itself. Clients often take the first one they can use.", verbose_name='named to clients')),
                ('method', models.CharField(choices=[('signed', 'By its keys (JWT)'), ('asked', 'By asking it (introspection)')], default='signed', max_length=8, verbose_name='tokens are judged')),
                ('keys_address', models.CharField(blank=True, help_text='Empty: as its own document says (jwks_uri).', max_length=500, verbose_name='address of its keys')),
                ('algorithms', sessions_app.kit.fields.JSONText(default=mcphub.features.signin.issuers.models.default_algorithms, help_text='Signatures with a public key, such as RS256, ES256.', verbose_name='algorithms')),
                ('question_address', models.CharField(blank=True, help_text='Empty: as its own document says.', max_length=500, verbose_name='address of introspection')),
                ('client_id', models.CharField(blank=True, help_text='With which the hub asks what a token is worth.', max_length=200, verbose_name='client id')),
                ('ciphertext', models.TextField(blank=True, editable=False)),
                ('mask', models.CharField(blank=True, editable=False, max_length=40, verbose_name='client secret')),
                ('audiences', sessions_app.kit.fields.JSONText(blank=True, default=dict, help_text='Audience -> endpoint, such as {"api://mcp-hub": "/mcp"}, for issuers that cannot name endpoints of the hub by their addresses. The addresses themselves are always accepted.', verbose_name='audiences')),
                ('person_claim', models.CharField(blank=True, default='preferred_username', help_text='By which somebody is found who comes for the first time. From then on the subject alone decides. Empty: only those come in who are linked already.', max_length=100, verbose_name='claim with the name of the account')),
                ('makes_people', models.BooleanField(default=False, help_text='Whoever is unknown gets an account without rights or password.', verbose_name='makes accounts')),
                ('groups_claim', models.CharField(blank=True, max_length=100, verbose_name='claim with groups')),
                ('groups', sessions_app.kit.fields.JSONText(blank=True, default=dict, help_text='Value of the claim -> group of the hub, such as {"developers": "Developers"}. The token then shows the tools of these groups besides those of the person\'s own. Rights in the console it never gives.', verbose_name='groups')),
                ('scope_claim', models.CharField(default='scope', max_length=100, verbose_name='claim with scopes')),
                ('scopes', sessions_app.kit.fields.JSONText(blank=True, default=dict, help_text='Scope of the issuer -> scopes of the hub, such as {"mcp.use": ["tools:call"]}.', verbose_name='scopes')),
                ('scopes_always', sessions_app.kit.fields.JSONText(blank=True, default=list, help_text='For issuers without scopes, such as ["tools:call"].', verbose_name='scopes of every token')),
                ('takes_assertions', models.BooleanField(default=False, help_text='Enterprise-managed authorization: the hub gives tokens for its identity assertions (ID-JAG).', verbose_name='vouches for people')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='changed')),
            ],
            options={
                'verbose_name': 'trusted issuer',
                'verbose_name_plural': 'trusted issuers',
                'ordering': ['name'],
                'permissions': [('test_issuer', 'Can test a trusted issuer')],
                'constraints': [models.CheckConstraint(condition=models.Q(('issuer', ''), _negated=True), name='signin_issuer_named'), models.CheckConstraint(condition=models.Q(('method__in', ['signed', 'asked'])), name='signin_issuer_method_known'), models.UniqueConstraint(condition=models.Q(('enabled', True), ('method', 'asked')), fields=('method',), name='signin_one_issuer_asked', violation_error_message='Another enabled issuer is asked already. A token that names no issuer is shown to one alone.')],
            },
        ),
        migrations.CreateModel(
            name='Consent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='consents', to=settings.AUTH_USER_MODEL, verbose_name='person')),
                ('client', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='consents', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL, verbose_name='client')),
                ('endpoint', models.CharField(max_length=200, verbose_name='endpoint')),
                ('scopes', models.CharField(max_length=200, verbose_name='scopes')),
                ('given_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='given')),
            ],
            options={
                'verbose_name': 'allowed client',
                'verbose_name_plural': 'allowed clients',
                'ordering': ['-given_at', '-pk'],
                'default_permissions': ('view', 'delete'),
                'constraints': [models.UniqueConstraint(fields=('user', 'client', 'endpoint'), name='signin_consent_once'), models.CheckConstraint(condition=models.Q(('scopes', ''), _negated=True), name='signin_consent_allows')],
            },
        ),
    ]
