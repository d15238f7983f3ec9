"""A comparison keeps the texts that its fixes make."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("web", "0004_upload")]
    operations: ClassVar = [
        migrations.AddField("comparison", "fixes", models.CharField(blank=True, default="", max_length=200)),
    ]
