from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('invocations', '0005_verdict'),
    ]

    operations = [
        migrations.AddField(
            model_name='auditverdict',
            name='undelivered',
            field=models.TextField(blank=True, default='', verbose_name='checkpoints that did not arrive'),
        ),
    ]
