"""The class or function that makes a net of code, where its file has several."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Made by Django."""

    dependencies: ClassVar = [("web", "0001_initial")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="net", name="entry", field=models.CharField(blank=True, max_length=100)
        )
    ]
