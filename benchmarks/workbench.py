"""The workbench under load: 50 users upload two nets each, have them compared, and look at pages meanwhile.

    python -m benchmarks workbench [--users 50] [--within 2] [--slow 20] [--kill 5]

The server, its workers and the users share one machine. Every user is a thread that does what a browser
does: opens page 1, uploads four files, follows both nets, compares, follows the comparison as the page does,
opens the list, the help and the comparison, and fetches what the viewer shows. Told are the times of all
requests by kind, errors, and jobs that did not end as they must. With ``--slow`` so many others have a slow
line, and take half a minute to send one file. With ``--kill`` a worker is killed by SIGKILL every so many
seconds, and the server once; users then try again, as people do.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import Namespace, Record, option
from netweave.web.samples import samples
from tests.web.running import CSRF_TOKEN, Workbench

POLL_SECONDS = (0.3, 0.3, 0.5, 0.7, 1.0, 1.5)
"""As the front end asks (``frontend/src/web/follow.ts``)."""

TARGET_SECONDS = 0.2
TRIES = 40
SLOW_SECONDS, SLOW_DROPS, SLOW_BYTES = 30.0, 60, 50_000
SLOW_HEAD_START_SECONDS = 2.0


_NUMBERS = itertools.count(256)


def new_address() -> str:
    """Return another address of this machine: the server shares its threads out by address."""
    number = next(_NUMBERS)
    return f"127.1.{number // 256}.{number % 256}"


class User(threading.Thread):
    """One user: a browser with its cookies, and an address of its own."""

    def __init__(self, port: int, times: dict[str, list[float]], *, within: float, stubborn: bool) -> None:
        super().__init__(daemon=True)
        self.port, self.times, self.within, self.stubborn = port, times, within, stubborn
        self.address, self.tries = new_address(), TRIES
        self.cookies: dict[str, str] = {}
        self.token = ""
        self.connection: http.client.HTTPConnection | None = None
        self.verdict = self.failure = ""
        self.compared = 0.0

    def run(self) -> None:
        """Do what a user does, and keep how it went."""
        try:
            time.sleep(random.uniform(0, self.within))
            self._work()
        except Exception as error:  # noqa: BLE001 (told at the end)
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection; the next request opens another one."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _work(self) -> None:
        page = self._ask("page 1", "GET", "/").decode()
        self.token = CSRF_TOKEN.search(page)[1]  # type: ignore[index]
        sample = samples()["padding"]
        nets = [self._upload(files) for files in (sample.a, sample.b)]
        for net in nets:
            self._follow("state of a net", f"/api/nets/{net}")
        start = time.perf_counter()
        body = json.dumps({"a": nets[0], "b": nets[1]}).encode()
        key = json.loads(self._ask("start a comparison", "POST", "/api/comparisons", body))["id"]
        self._ask("list", "GET", "/comparisons/")
        self._ask("help", "GET", "/help/")
        found = self._follow("state of a comparison", f"/api/comparisons/{key}")
        self.compared = time.perf_counter() - start
        self.verdict = found["verdict"] or found["error"]
        self._ask("comparison", "GET", f"/comparisons/{key}/")
        self._ask("document", "GET", f"/api/comparisons/{key}/document")
        self._ask("page of a net", "GET", f"/nets/{nets[0]}/")

    def _upload(self, files: dict[str, bytes]) -> str:
        net: str = json.loads(self._ask("make a net", "POST", "/api/nets", b"{}"))["id"]
        for name, content in files.items():
            self._ask("upload", "PUT", f"/api/nets/{net}/files/{name}", content)
        return net

    def _follow(self, kind: str, path: str) -> dict[str, str]:
        for step in range(10_000):
            time.sleep(POLL_SECONDS[min(step, len(POLL_SECONDS) - 1)])
            found: dict[str, str] = json.loads(self._ask(kind, "GET", path))
            if found["state"] not in {"queued", "running"}:
                return found
        raise TimeoutError(path)

    def _ask(self, kind: str, method: str, path: str, body: bytes | None = None) -> bytes:
        for again in range(self.tries):
            try:
                return self._ask_once(kind, method, path, body)
            except OSError:
                self.hang_up()
                if not self.stubborn or again == self.tries - 1:
                    raise
                time.sleep(0.5)
        raise AssertionError

    def _headers(self) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": cookies, "X-CSRFToken": self.token, "Content-Type": "application/json"}

    def _ask_once(self, kind: str, method: str, path: str, body: bytes | None) -> bytes:
        if self.connection is None:
            self.connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=60, source_address=(self.address, 0)
            )
        start = time.perf_counter()
        try:
            self.connection.request(method, path, body, self._headers())
            with self.connection.getresponse() as response:
                content = response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        self.times[kind].append(time.perf_counter() - start)
        for cookie in response.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        if response.status >= 400:
            raise AssertionError(f"{method} {path}: {response.status} {content[:200]!r}")
        return content


class SlowUser(User):
    """One whose line is slow: a file that comes in drops."""

    def _work(self) -> None:
        page = self._ask("page 1", "GET", "/").decode()
        self.token = CSRF_TOKEN.search(page)[1]  # type: ignore[index]
        net = json.loads(self._ask("make a net", "POST", "/api/nets", b"{}"))["id"]
        assert self.connection is not None
        self.connection.putrequest("PUT", f"/api/nets/{net}/files/slow.bin")
        for name, value in {**self._headers(), "Content-Length": str(SLOW_DROPS * SLOW_BYTES)}.items():
            self.connection.putheader(name, value)
        self.connection.endheaders()
        for _ in range(SLOW_DROPS):
            time.sleep(SLOW_SECONDS / SLOW_DROPS)
            self.connection.send(bytes(SLOW_BYTES))
        response = self.connection.getresponse()
        assert response.status == 201, response.read()


def kill_now_and_then(bench: Workbench, every_s: float, stop: threading.Event) -> None:
    """Kill a worker every so often, and the server once."""
    killed = False
    for number in range(1, 10_000):
        if stop.wait(every_s):
            return
        words = "gunicorn" if number >= 2 and not killed else "netweave.web.work.worker"
        found = bench.processes(words)
        killed = killed or words == "gunicorn"
        for process in found[:1]:
            print(f"  kill -9 {process} ({words})", flush=True)
            os.kill(process, signal.SIGKILL)


def report(
    users: list[User], slow_users: list[SlowUser], times: dict[str, list[float]], seconds: float
) -> dict[str, Any]:
    """Print the figures and return them; ``passed`` if nothing was lost and the pages were fast."""
    print(f"{'request':24}{'number':>8}{'median':>10}{'95 %':>10}{'longest':>10}   (ms)")
    slow, rows = [], {}
    for kind, taken in sorted(times.items()):
        centile = statistics.quantiles(taken, n=20, method="inclusive")[-1] if len(taken) > 1 else taken[0]
        if centile > TARGET_SECONDS:
            slow.append(kind)
        rows[kind] = [round(1000 * value, 1) for value in (statistics.median(taken), centile, max(taken))]
        print(f"{kind:24}{len(taken):8}" + "".join(f"{value:10.1f}" for value in rows[kind]))
    every = [value for taken in times.values() for value in taken]
    centile = statistics.quantiles(every, n=20)[-1]
    print(f"{'all':24}{len(every):8}{1000 * statistics.median(every):10.1f}{1000 * centile:10.1f}")
    waited = sorted(user.compared for user in users)
    failures = [user.failure for user in (*users, *slow_users) if user.failure]
    wrong = [user.verdict for user in users if not user.failure and user.verdict != "different"]
    print(
        f"{len(users)} users in {seconds:.1f} s; a comparison took {waited[len(waited) // 2]:.1f} s (median)"
    )
    print(f"errors: {len(failures)}; other verdicts than the right one: {len(wrong)}")
    for text in (*failures, *wrong)[:5]:
        print(f"  {text}")
    print(f"over {1000 * TARGET_SECONDS:.0f} ms at the 95th percentile: {', '.join(slow) or 'nothing'}")
    return {
        "ms: median, 95 %, longest": rows,
        "seconds": round(seconds, 1),
        "errors": len(failures),
        "wrong": len(wrong),
        "passed": not failures and not wrong and not slow,
    }


def _let_loose(users: Sequence[User]) -> None:
    for user in users:
        user.start()


def _wait_for(users: Sequence[User]) -> None:
    for user in users:
        user.join()


OPTIONS = (
    option("--users", default=50),
    option("--within", default=2.0, help="Seconds in which all of them come."),
    option("--slow", default=0, help="Users besides whose line is slow."),
    option("--kill", type=float, help="Seconds between two kills."),
)


def main(options: Namespace, record: Record) -> None:
    """Run it and print the figures."""
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(Path(folder), workers=2, settings="newcomers_per_minute = 10000")
        with bench:
            users = [
                User(bench.port, times, within=options.within, stubborn=bool(options.kill))
                for _ in range(options.users)
            ]
            slow = [SlowUser(bench.port, times, within=0, stubborn=False) for _ in range(options.slow)]
            _let_loose(slow)
            time.sleep(SLOW_HEAD_START_SECONDS if slow else 0)
            stop = threading.Event()
            if options.kill:
                killing = threading.Thread(target=kill_now_and_then, args=(bench, options.kill, stop))
                killing.start()
            start = time.perf_counter()
            _let_loose(users)
            _wait_for(users)
            seconds = time.perf_counter() - start
            stop.set()
            _wait_for(slow)
            figures = report(users, slow, times, seconds)
            results = len(list((bench.data / "files" / "results").rglob("*-result.json.gz")))
            print(f"stored results: {results} of {options.users} comparisons")
    record.save(figures | {"users": options.users, "stored": results})
    raise SystemExit(0 if figures["passed"] or options.kill else 1)
