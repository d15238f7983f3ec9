"""A visitor with a browser: keeps cookies, sends the CSRF token of the page, as the front end does."""

from __future__ import annotations

import json
import re

from django.test import Client


class Visitor:
    def __init__(self, address: str = "127.0.0.1") -> None:
        self.client = Client(enforce_csrf_checks=True, REMOTE_ADDR=address, HTTP_HOST="localhost")
        self.token = ""
        self.open("/help/")
        self.open("/")

    def open(self, path: str):
        response = self.client.get(path)
        found = re.search(rb'name="csrf-token" content="([^"]*)"', response.content)
        self.token = found[1].decode() if found else self.token
        return response

    def call(self, method: str, path: str, body=None):
        given = {"data": json.dumps(body), "content_type": "application/json"} if body is not None else {}
        return self.client.generic(method, f"/api{path}", headers={"X-CSRFToken": self.token}, **given)

    def upload(self, net: str, name: str, content: bytes):
        return self.client.generic(
            "PUT",
            f"/api/nets/{net}/files/{name}",
            content,
            "application/octet-stream",
            headers={"X-CSRFToken": self.token},
        )

    def submit(self, path: str, **fields: str):
        return self.client.post(path, {**fields, "csrfmiddlewaretoken": self.token})

    def make_token(self) -> str:
        """Return the token that the page makes, in place of one that there is."""
        page = self.open("/programs/").content.decode()
        replaces = re.search(r'name="replaces" value="([^"]*)"', page)[1]
        made = self.submit("/programs/", replaces=replaces).content.decode()
        return re.search(r'id="token" value="([^"]*)"', made)[1]

    def make_net(self, **files: bytes) -> str:
        made = self.call("POST", "/nets", {})
        assert made.status_code == 201, made.content
        for name, content in files.items():
            assert self.upload(made.json()["id"], name, content).status_code == 201
        return made.json()["id"]

    def make_comparison(self) -> str:
        pair = self.call("POST", "/samples/padding").json()
        made = self.call("POST", "/comparisons", {"a": pair["a"]["id"], "b": pair["b"]["id"]})
        assert made.status_code == 202, made.content
        return made.json()["id"]
