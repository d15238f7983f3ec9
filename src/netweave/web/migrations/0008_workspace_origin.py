"""A workspace without an account knows the address that it came from, which jobs are shared out by."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("web", "0007_own_input")]
    operations: ClassVar = [
        migrations.AddField(
            "workspace", "origin", models.CharField(blank=True, default="", max_length=45, db_index=True)
        ),
    ]
