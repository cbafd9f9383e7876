from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('invocations', '0007_task_clear'),
    ]

    operations = [
        migrations.AddField(
            model_name='mcptoolinvocation',
            name='method',
            field=models.CharField(blank=True, choices=[('tools/call', 'tools/call'), ('resources/read', 'resources/read'), ('prompts/get', 'prompts/get'), ('completion/complete', 'completion/complete')], help_text='Of what was read; empty for a call of a tool.', max_length=100, null=True, verbose_name='method'),
        ),
        migrations.AddField(
            model_name='mcptoolinvocation',
            name='target',
            field=models.CharField(blank=True, help_text='URI or template of the resource, name of the prompt, that was read.', max_length=600, null=True, verbose_name='resource or prompt'),
        ),
        migrations.AddIndex(
            model_name='mcptoolinvocation',
            index=models.Index(condition=models.Q(('method__isnull', False)), fields=['method', 'id'], name='invocation_by_method'),
        ),
        migrations.AddIndex(
            model_name='mcptoolinvocation',
            index=models.Index(condition=models.Q(('target__isnull', False)), fields=['target', 'id'], name='invocation_by_target'),
        ),
    ]
