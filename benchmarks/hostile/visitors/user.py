"""Users of a workbench: what a browser does to upload two nets, have them compared, and look at pages."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time

from netweave.web.samples import samples
from tests.web.running import CSRF_TOKEN

POLL_SECONDS = (0.3, 0.3, 0.5, 0.7, 1.0, 1.5)
"""As the front end asks (``frontend/src/web/follow.ts``)."""

TARGET_SECONDS = 0.2
"""Time that 95 % of the requests of a page may take at most."""

TRIES = 40

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
        body = json.dumps({"a": nets[0], "b": nets[1]}).encode()
        key = json.loads(self._ask("start a comparison", "POST", "/api/comparisons", body))["id"]
        self._ask("list", "GET", "/comparisons/")
        self._ask("help", "GET", "/help/")
        found = self._follow("state of a comparison", f"/api/comparisons/{key}")
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
