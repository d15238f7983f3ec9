from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("web", "0005_fixes")]

    operations = [
        migrations.AddField(
            model_name="workspace", name="reads_code", field=models.BooleanField(default=False)
        ),
    ]
