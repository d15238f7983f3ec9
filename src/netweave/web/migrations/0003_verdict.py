"""Room for the longest verdict, "same structure, weights not compared"."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Made by Django."""

    dependencies: ClassVar = [("web", "0002_entry")]

    operations: ClassVar = [
        migrations.AlterField(
            model_name="comparison",
            name="verdict",
            field=models.CharField(blank=True, max_length=40),
        )
    ]
