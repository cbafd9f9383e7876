import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0004_login_limit'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='recorded_mib_per_day',
            field=models.PositiveIntegerField(blank=True, help_text='What its calls may fill of the audit. Empty: what every caller may, 0: no limit.', null=True, validators=[django.core.validators.MaxValueValidator(2000000)], verbose_name='MiB on record per day'),
        ),
        migrations.RemoveConstraint(
            model_name='ratelimitbucket',
            name='bucket_tokens_within_capacity',
        ),
        migrations.AddConstraint(
            model_name='ratelimitbucket',
            constraint=models.CheckConstraint(condition=models.Q(('tokens__gte', models.expressions.CombinedExpression(models.F('capacity'), '*', models.Value(-1))), ('tokens__lte', models.F('capacity'))), name='bucket_tokens_or_debt'),
        ),
    ]
