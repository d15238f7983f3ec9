"""Room that is taken for an upload while it arrives."""

from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    """Made by Django."""

    dependencies: ClassVar = [("web", "0003_verdict")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="Upload",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("stored", models.CharField(max_length=200, unique=True)),
                ("num_bytes", models.BigIntegerField()),
                ("touched", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "workspace",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="web.workspace"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["touched"], name="upload_by_age")],
            },
        )
    ]
