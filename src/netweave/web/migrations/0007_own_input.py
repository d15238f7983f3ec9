"""Comparisons run on files of inputs that users bring."""

from __future__ import annotations

import uuid
from typing import ClassVar

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("web", "0006_reads_code")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="OwnInput",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=120)),
                ("stored", models.CharField(max_length=200)),
                ("num_bytes", models.BigIntegerField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "workspace",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="web.workspace"),
                ),
            ],
        ),
        migrations.AddField(
            "comparison",
            "own_input",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="comparisons",
                to="web.owninput",
            ),
        ),
    ]
