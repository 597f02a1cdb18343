"""lakeFS: its metadata in a database of its own on the stack's PostgreSQL, its blocks on the stack's S3 server."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from base64 import b64encode
from http.client import HTTPException
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headwater.rules.errors import Unavailable
from headwater.stack import golang, processes
from headwater.stack.addresses import Addresses
from headwater.stack.home import LOOPBACK, Place
from headwater.stack.postgres import create_database, database_address
from headwater.stack.progress import Report
from headwater.stack.server import require_free_ports

DATABASE = "lakefs"
ADMINISTRATOR = "headwater"


class LakeFS:
    name = "lakefs"
    stop_signal = signal.SIGTERM
    _build = golang.Build("lakefs", "lakefs", "github.com/treeverse/lakefs/cmd/lakefs")

    def prepare(self, report: Report) -> None:
        self._build.binary(report)

    def start(self, place: Place, addresses: Addresses) -> None:
        if processes.alive(self.name, place.home):
            return
        require_free_ports(self.name, place.ports.of(self.name))
        create_database(addresses.postgres, DATABASE)
        folder = place.home / "lakefs"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "lakefs.yaml"
        config.touch(mode=0o600)
        config.write_text(json.dumps(_config(place, addresses), indent=1), encoding="utf-8")  # JSON is YAML
        argv = [str(self._build.path()), "--config", str(config), "run"]
        processes.start_detached(self.name, argv, os.environ, place.home)

    def answer(self, address: str) -> str:
        state = call(address, "GET", "setup_lakefs").get("state")
        if state != "initialized":
            return "lakeFS, not set up yet"
        return f"lakeFS, user {call(address, 'GET', 'user')['user']['id']}"

    def finish(self, place: Place, address: str) -> None:
        """Creates the administrator whose keys the address holds, unless lakeFS has one."""
        if call(address, "GET", "setup_lakefs").get("state") == "initialized":
            return
        key = {"access_key_id": place.secrets.lakefs_access_key, "secret_access_key": place.secrets.lakefs_secret_key}
        call(address, "POST", "setup_lakefs", {"username": ADMINISTRATOR, "key": key})


def _config(place: Place, addresses: Addresses) -> dict[str, Any]:
    s3 = urlsplit(addresses.s3)
    return {
        "listen_address": f"{LOOPBACK}:{place.ports.lakefs}",
        "logging": {"level": "WARN"},
        "database": {
            "type": "postgres",
            "postgres": {"connection_string": database_address(addresses.postgres, DATABASE)},
        },
        "auth": {"encrypt": {"secret_key": place.secrets.lakefs_encryption_key}},
        "blockstore": {
            "type": "s3",
            "s3": {
                "endpoint": f"{s3.scheme}://{s3.netloc.rpartition('@')[2]}",
                "force_path_style": True,
                "discover_bucket_region": False,
                "region": parse_qs(s3.query).get("region", ["us-east-1"])[0],
                "credentials": {"access_key_id": s3.username, "secret_access_key": s3.password},
            },
        },
        # Nothing leaves the machine: no statistics, no look for newer versions. (A build without a version number,
        # like ours, asks for no security advisories either.)
        "stats": {"enabled": False},
        "security": {"check_latest_version": False},
    }


def call(address: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One call of lakeFS's HTTP API. Raises Unavailable if it is not answered with success."""
    parts = urlsplit(address)
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/api/v1/{path}"
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Basic {b64encode(f'{parts.username}:{parts.password}'.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            answer: dict[str, Any] = json.loads(reply.read())
            return answer
    except urllib.error.HTTPError as refused:
        with refused:
            detail = refused.read(500).decode(errors="replace")
        raise Unavailable(f"lakeFS answered {method} {path} with {refused.code}: {detail}.") from None
    except (OSError, HTTPException, ValueError) as failure:
        raise Unavailable(f"lakeFS at {parts.hostname}:{parts.port} does not answer: {failure}.") from failure
