"""A workbench in processes of its own, and a program that calls it over HTTP."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

READY_SECONDS = 60

CSRF_TOKEN = re.compile(r'name="csrf-token" content="([^"]*)"')


REPLACES = re.compile(r'name="replaces" value="([^"]*)"')


class Workbench:
    """``netweave serve`` on a folder and a free port."""

    def __init__(self, data: Path, *, workers: int = 1, settings: str = "", environment=None) -> None:
        data.mkdir(parents=True, exist_ok=True)
        # each browser is to be a visitor of its own (decision 0148)
        hosts = "" if "hosts" in settings else 'hosts = ["workbench.example"]\n'
        (data / "settings.toml").write_text(hosts + settings)
        self.data, self.workers = data, workers
        self.environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
        self.environment |= environment or {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Workbench:
        try:
            self.start()
        except BaseException:  # it would run on, and start its parts again and again
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)

    def start(self) -> None:
        command = [sys.executable, "-m", "netweave", "serve", "--data", self.data, "--port", self.port]
        command += ["--workers", self.workers]
        with (self.data / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, env=self.environment
            )
        deadline = time.monotonic() + READY_SECONDS
        while "The workbench is at" not in self.log or not self._answers():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/help/", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    @property
    def log(self) -> str:
        return (self.data / "log").read_text()

    def processes(self, words: str) -> list[int]:
        """Return the ids of its processes whose command has some words."""
        found = []
        for process in Path("/proc").iterdir():
            if not process.name.isdecimal():
                continue
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environment = (process / "environ").read_bytes()
            except OSError:
                continue
            if words in command and f"NETWEAVE_DATA={self.data}\0".encode() in environment:
                found.append(int(process.name))
        return found

    def program(self) -> Program:
        return Program(self.url)


class Program:
    """A program with a token; one workspace each."""

    def __init__(self, url: str) -> None:
        self.url = url
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(jar)
        page = self._page(f"{url}/programs/")
        form = {"csrfmiddlewaretoken": CSRF_TOKEN.search(page)[1], "replaces": REPLACES.search(page)[1]}
        page = self._page(f"{url}/programs/", urllib.parse.urlencode(form))
        self.token = re.search(r'id="token" value="([^"]*)"', page)[1]

    def _page(self, url: str, form: str = "") -> str:
        with self.opener.open(url, form.encode() or None) as response:
            return response.read().decode()

    def call(self, method: str, path: str, body=None, *, raw: bytes | None = None):
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if raw is not None else "application/json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(f"{self.url}/api{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                content = response.read()
                return json.loads(content) if content else None
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None

    def upload(self, *files: Path) -> str:
        net = self.call("POST", "/nets", {})["id"]
        for file in files:
            self.call("PUT", f"/nets/{net}/files/{file.name}", raw=file.read_bytes())
        return net

    def compare(self, a: str, b: str) -> str:
        return self.call("POST", "/comparisons", {"a": a, "b": b})["id"]

    def wait(self, path: str, seconds: float = 60):
        deadline = time.monotonic() + seconds
        while True:
            found = self.call("GET", path)
            if found["state"] not in {"queued", "running"}:
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
