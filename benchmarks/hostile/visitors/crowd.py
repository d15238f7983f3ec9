"""An ordinary crowd, as many and as quick as the attackers, who do as the pages do: attacks are judged by it.

Run as a program, as the attackers are: ``python -m benchmarks.hostile.visitors.crowd PORT SECONDS``. It
prints, as JSON, how often each thing was done. Nobody in it pauses to read, and none holds a connection,
sends anything damaged or starts a comparison before the last one has ended.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from benchmarks.hostile.visitors.attackers import Attack, Browser, again
from benchmarks.hostile.visitors.user import POLL_SECONDS
from netweave.web.samples import samples

if TYPE_CHECKING:
    from collections import Counter

READERS, COMPARERS, UPLOADERS = 8, 4, 4
"""As many as the attackers who flood, who start comparisons, and who upload or make nets."""

PAGES = ("/", "/comparisons/", "/help/", "/nets/")


def read_pages(crowd: Attack) -> None:
    """Open one page after the other, with cookies."""
    browser = Browser(crowd)
    while crowd.is_on():
        with suppress(OSError):
            browser.send("GET", random.choice(PAGES))
            crowd.done["pages read"] += 1


def compare(crowd: Attack) -> None:
    """Compare the sample and follow the comparison to its end, again and again."""
    browser = Browser(crowd)
    while crowd.is_on():
        with suppress(OSError, KeyError):
            pair = json.loads(browser.send("POST", "/api/samples/padding")[1])
            body = json.dumps({"a": pair["a"]["id"], "b": pair["b"]["id"]}).encode()
            key = json.loads(browser.send("POST", "/api/comparisons", body)[1])["id"]
            state = "queued"
            while crowd.is_on() and state in {"queued", "running"}:
                time.sleep(POLL_SECONDS[-1])
                state = json.loads(browser.send("GET", f"/api/comparisons/{key}")[1])["state"]
            crowd.done["comparisons"] += 1


def upload(crowd: Attack) -> None:
    """Upload a net, and delete it."""
    browser = Browser(crowd)
    files = samples()["padding"].a
    while crowd.is_on():
        with suppress(OSError):
            key = browser.net()
            if not key:
                continue
            for name, content in files.items():
                browser.send("PUT", f"/api/nets/{key}/files/{name}", content)
            browser.send("DELETE", f"/api/nets/{key}")
            crowd.done["nets uploaded"] += 1


def crowd_in(port: int, seconds: float) -> Counter[str]:
    """Have all of them visit a workbench at once; return how often each thing was done."""
    crowd = Attack(port, seconds)
    ways: list[Callable[[Attack], None]] = [
        *[read_pages] * READERS,
        *[compare] * COMPARERS,
        *[upload] * UPLOADERS,
    ]
    threads = [threading.Thread(target=again, args=(crowd, way), daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 90)
    return crowd.done


if __name__ == "__main__":
    os.nice(19)
    print(json.dumps(crowd_in(int(sys.argv[1]), float(sys.argv[2]))))
