"""The log and the pages tell the time of this machine, not of Chicago, which is Django's default."""

from __future__ import annotations

import pytest

from netweave.web import time_zone


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine that names its zone in the given way."""

    def machine(*, variable="", link="", text=""):
        monkeypatch.setenv("TZ", variable)
        monkeypatch.setattr(time_zone, "LOCALTIME", tmp_path / "localtime")
        monkeypatch.setattr(time_zone, "TIMEZONE", tmp_path / "timezone")
        if link:
            zone = tmp_path / "zoneinfo" / link
            zone.parent.mkdir(parents=True)
            zone.touch()
            time_zone.LOCALTIME.symlink_to(zone)
        if text:
            time_zone.TIMEZONE.write_text(f"{text}\n")
        return time_zone.machine_time_zone()

    return machine


@pytest.mark.parametrize(
    ("given", "zone"),
    [
        ({"variable": "Europe/Berlin", "link": "Asia/Tokyo"}, "Europe/Berlin"),
        ({"variable": ":Asia/Kolkata"}, "Asia/Kolkata"),
        ({"link": "America/Argentina/Ushuaia", "text": "Etc/UTC"}, "America/Argentina/Ushuaia"),
        ({"text": "Africa/Lagos"}, "Africa/Lagos"),
        ({"variable": "CET-1CEST,M3.5.0", "text": "../../etc/passwd"}, "UTC"),
        ({}, "UTC"),
    ],
)
def test_the_zone_is_what_the_machine_names(machine, given, zone):
    assert machine(**given) == zone


def test_django_takes_it():
    from django.conf import settings

    assert time_zone.machine_time_zone() == settings.TIME_ZONE
