"""The workbench under load: 50 users upload two nets each, have them compared, and look at pages meanwhile.

    python -m benchmarks.workbench [--users 50] [--kill]

The server, its workers and the users share one machine. Every user is a thread that does what a browser
does: opens page 1, uploads four files, follows both nets, compares, follows the comparison as the page does,
opens the list, the help and the comparison, and fetches what the viewer shows. Told are the times of all
requests by kind, errors, and jobs that did not end as they must. With ``--kill`` a worker is killed by
SIGKILL every two seconds, and the server once; users then try again, as people do.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from netweave.web.samples import samples
from tests.web.running import CSRF_TOKEN, Workbench

POLL_SECONDS = (0.3, 0.3, 0.5, 0.7, 1.0, 1.5)
"""As the front end asks (``frontend/src/web/follow.ts``)."""

TARGET_SECONDS = 0.2
TRIES = 40


class User(threading.Thread):
    """One user: a browser with its cookies."""

    def __init__(self, port: int, times: dict[str, list[float]], *, stubborn: bool) -> None:
        super().__init__(daemon=True)
        self.port, self.times, self.stubborn = port, times, stubborn
        self.cookies: dict[str, str] = {}
        self.token = ""
        self.connection: http.client.HTTPConnection | None = None
        self.verdict = self.failure = ""
        self.compared = 0.0

    def run(self) -> None:
        """Do what a user does, and keep how it went."""
        try:
            time.sleep(random.uniform(0, 2))  # people do not click in the same millisecond
            self._work()
        except Exception as error:  # noqa: BLE001 (told at the end)
            self.failure = f"{type(error).__name__}: {error}"

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
        for again in range(TRIES):
            try:
                return self._ask_once(kind, method, path, body)
            except OSError:
                self.connection = None
                if not self.stubborn or again == TRIES - 1:
                    raise
                time.sleep(0.5)
        raise AssertionError

    def _ask_once(self, kind: str, method: str, path: str, body: bytes | None) -> bytes:
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        headers |= {"X-CSRFToken": self.token, "Content-Type": "application/json"}
        start = time.perf_counter()
        try:
            self.connection.request(method, path, body, headers)
            response = self.connection.getresponse()
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


def kill_now_and_then(bench: Workbench, stop: threading.Event) -> None:
    """Kill a worker every two seconds, and the server once."""
    killed = False
    for number in range(1, 10_000):
        if stop.wait(2.0):
            return
        words = "gunicorn" if number >= 4 and not killed else "netweave.web.work.worker"
        found = bench.processes(words)
        killed = killed or words == "gunicorn"
        for process in found[:1]:
            print(f"  kill -9 {process} ({words})", flush=True)
            os.kill(process, signal.SIGKILL)


def report(users: list[User], times: dict[str, list[float]], seconds: float) -> bool:
    """Print the figures; return whether nothing was lost and the pages were fast."""
    print(f"{'request':24}{'number':>8}{'median':>10}{'95 %':>10}{'longest':>10}   (ms)")
    slow = []
    for kind, taken in sorted(times.items()):
        centile = statistics.quantiles(taken, n=20, method="inclusive")[-1] if len(taken) > 1 else taken[0]
        if centile > TARGET_SECONDS:
            slow.append(kind)
        row = [statistics.median(taken), centile, max(taken)]
        print(f"{kind:24}{len(taken):8}" + "".join(f"{1000 * value:10.1f}" for value in row))
    every = [value for taken in times.values() for value in taken]
    centile = statistics.quantiles(every, n=20)[-1]
    print(f"{'all':24}{len(every):8}{1000 * statistics.median(every):10.1f}{1000 * centile:10.1f}")
    waited = sorted(user.compared for user in users)
    failures = [user.failure for user in users if user.failure]
    wrong = [user.verdict for user in users if not user.failure and user.verdict != "different"]
    print(
        f"{len(users)} users in {seconds:.1f} s; a comparison took {waited[len(waited) // 2]:.1f} s (median)"
    )
    print(f"errors: {len(failures)}; other verdicts than the right one: {len(wrong)}")
    for text in (*failures, *wrong)[:5]:
        print(f"  {text}")
    print(f"over {1000 * TARGET_SECONDS:.0f} ms at the 95th percentile: {', '.join(slow) or 'nothing'}")
    return not failures and not wrong and not slow


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--kill", action="store_true")
    chosen = parser.parse_args()
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(Path(folder), workers=2, settings="newcomers_per_minute = 10000")
        with bench:
            users = [User(bench.port, times, stubborn=chosen.kill) for _ in range(chosen.users)]
            stop = threading.Event()
            if chosen.kill:
                threading.Thread(target=kill_now_and_then, args=(bench, stop), daemon=True).start()
            start = time.perf_counter()
            for user in users:
                user.start()
            for user in users:
                user.join()
            stop.set()
            passed = report(users, times, time.perf_counter() - start)
            results = len(list((bench.data / "files" / "results").rglob("*-result.json.gz")))
            print(f"stored results: {results} of {chosen.users} comparisons")
    raise SystemExit(0 if passed or chosen.kill else 1)


if __name__ == "__main__":
    main()
