from django.db import migrations, models

_METHODS = ('tools/call', 'resources/read', 'prompts/get', 'completion/complete', 'elicitation/create', 'sampling/createMessage', 'roots/list')


class Migration(migrations.Migration):

    dependencies = [
        ('invocations', '0008_reads'),
    ]

    operations = [
        migrations.AddField(
            model_name='mcptoolinvocation',
            name='asked_by',
            field=models.CharField(blank=True, help_text='The call that asked its client this.', max_length=36, null=True, verbose_name='asked by'),
        ),
        migrations.AlterField(
            model_name='mcptoolinvocation',
            name='method',
            field=models.CharField(blank=True, choices=[(method, method) for method in _METHODS], help_text='Of what was read; empty for a call of a tool.', max_length=100, null=True, verbose_name='method'),
        ),
        migrations.AddIndex(
            model_name='mcptoolinvocation',
            index=models.Index(condition=models.Q(('asked_by__isnull', False)), fields=['asked_by', 'id'], name='invocation_questions'),
        ),
    ]
