"""The files of ``deploy`` as they are: nginx with HTTPS, the workbench, PostgreSQL, a store that speaks S3.

Everything runs on loopback, from the programs of Debian and PyPI; docker does not run here.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.web.running import CSRF_TOKEN, Workbench

DEPLOY = Path(__file__).parents[2] / "deploy"
HOST = "nets.example.org"
PASSWORD = "long-and-secret-0"

NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; user {user};
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {server}
}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on {port}")


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    process.wait(20)


@pytest.fixture
def store():
    """moto's server, with the bucket of the settings; what the workbench needs to reach it."""
    moto = os.environ.get("NETWEAVE_MOTO_SERVER") or shutil.which("moto_server")
    pytest.importorskip("storages.backends.s3")
    boto3 = pytest.importorskip("boto3")
    if moto is None:
        pytest.skip("needs moto's server: pip install 'moto[server]'")
    port = free_port()
    process = subprocess.Popen([moto, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    wait_for(port)
    environment = {
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL_S3"],
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="nets")
    yield environment, client
    stop(process)


@pytest.fixture
def nginx(tmp_path):
    """Start nginx with the configuration of ``deploy`` before a port; return its own port."""
    program = os.environ.get("NETWEAVE_NGINX") or shutil.which("nginx")
    openssl = shutil.which("openssl")
    if program is None or openssl is None:
        pytest.skip("needs nginx and openssl")
    started = []

    def start(workbench: int) -> int:
        folder = tmp_path / "nginx"
        folder.mkdir()
        files = ["-keyout", folder / "nets.key", "-out", folder / "nets.pem"]
        request = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *files]
        subprocess.run([*request, "-subj", f"/CN={HOST}"], check=True, capture_output=True)
        port = free_port()
        server = (DEPLOY / "nginx.conf").read_text()
        for there, here in (
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/nginx/certificates", str(folder)),
            ("http://workbench:8642", f"http://127.0.0.1:{workbench}"),
        ):
            assert there in server
            server = server.replace(there, here)
        user = "root" if os.geteuid() == 0 else "nobody"
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, server=server, user=user))
        started.append(subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf"]))
        wait_for(port)
        return port

    yield start
    for process in started:
        stop(process)


class Browser:
    """A browser that reaches the host through nginx."""

    def __init__(self, port: int) -> None:
        self.base = f"https://{HOST}:{port}"
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=trusting), urllib.request.HTTPCookieProcessor(self.jar)
        )

    def ask(self, method: str, path: str, content: bytes | None = None, kind: str = "application/json"):
        headers = {"Content-Type": kind, "Referer": f"https://{HOST}/"}
        if content is not None or method != "GET":
            headers["X-CSRFToken"] = self.token
        request = urllib.request.Request(self.base + path, content, headers, method=method)
        request.add_header("Host", HOST)
        with self.opener.open(request, timeout=60) as response:
            return response.read()

    def open(self, path: str) -> str:
        page = self.ask("GET", path).decode()
        found = CSRF_TOKEN.search(page)
        self.token = found[1] if found else ""
        return page

    def call(self, method: str, path: str, body=None):
        content = self.ask(method, f"/api{path}", json.dumps(body).encode() if body is not None else None)
        return json.loads(content)


@pytest.fixture
def resolved(monkeypatch):
    """The host's name is this machine's, for this process."""
    known = socket.getaddrinfo

    def getaddrinfo(host, *given, **named):
        return known("127.0.0.1" if host == HOST else host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.multi
@pytest.mark.slow
def test_a_team_signs_in_uploads_and_compares(postgres, store, nginx, resolved, tmp_path):
    environment, client = store
    settings = (DEPLOY / "settings.toml").read_text()
    team = {**environment, "DATABASE_URL": postgres}
    with Workbench(tmp_path / "data", workers=2, settings=settings, environment=team) as bench:
        user = {"NETWEAVE_DATA": str(bench.data), "DJANGO_SETTINGS_MODULE": "netweave.web.settings"}
        django = [sys.executable, "-m", "django", "createsuperuser", "--noinput"]
        create = [*django, "--username", "ada", "--email", ""]
        names = {**os.environ, **team, **user, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        subprocess.run(create, env=names, check=True, capture_output=True)
        browser = Browser(nginx(bench.port))
        assert "Sign in" in browser.open("/")
        form = {"username": "ada", "password": PASSWORD, "next": "/", "csrfmiddlewaretoken": browser.token}
        encoded = urllib.parse.urlencode(form).encode()
        browser.ask("POST", "/sign-in/", encoded, "application/x-www-form-urlencoded")
        assert "Look at a net" in browser.open("/")
        assert {cookie.name: cookie.secure for cookie in browser.jar} == {
            "sessionid": True,
            "csrftoken": True,
        }
        pair = browser.call("POST", "/samples/padding", {})
        key = browser.call("POST", "/comparisons", {"a": pair["a"]["id"], "b": pair["b"]["id"]})["id"]
        for _ in range(600):
            found = browser.call("GET", f"/comparisons/{key}")
            if found["state"] not in {"queued", "running"}:
                break
            time.sleep(0.2)
        assert found["verdict"] == "different", found
        assert b"### \xe2\x89\xa0 different" in browser.ask("GET", f"/api/comparisons/{key}/export/md")
        stored = {row["Key"] for row in client.list_objects_v2(Bucket="nets")["Contents"]}
        assert all(name.startswith("workbench/") for name in stored)
        assert any("/results/" in name for name in stored)
        assert not (bench.data / "netweave.sqlite3").exists()
        assert not (bench.data / "files").exists()


def test_compose_names_what_is_there():
    """Its form: files that are mounted are here, and every variable stands in the example."""
    yaml = pytest.importorskip("yaml")
    text = (DEPLOY / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    assert set(services) == {"database", "workbench", "nginx"}
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert not source.startswith(".") or source == "./certificates" or (DEPLOY / source).exists()
    variables = set(re.findall(r"\$\{(\w+)", text))
    assert variables == set(re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text(), re.MULTILINE))
    assert (DEPLOY / services["workbench"]["build"] / "Dockerfile").exists()
