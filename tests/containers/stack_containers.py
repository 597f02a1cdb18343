"""The stack of the tests as containers, where a Docker engine answers.

Images, settings and start commands are those of compose.yaml (headwater/stack/compose.py, from stack.toml), which has
what one Kafka broker needs for transactions; ports and secrets are this session's own. Written where no engine runs:
what is tested is what can be without one; the containers themselves were never started by us.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import docker
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from headwater.rules.errors import Unavailable
from headwater.stack.addresses import Addresses
from headwater.stack.compose import servers
from headwater.stack.description import Ports, compose_file, program
from headwater.stack.local import SERVERS
from headwater.stack.s3 import create_bucket
from headwater.stack.server import Server

PROGRAMS = {server.name: server for server in SERVERS}
_SECONDS = 120.0

_ASKED = re.compile(r"\$\{(\w+):\?[^}]*\}")
"""How compose.yaml asks for a secret."""


def engine_answers() -> bool:
    if not _somebody_listens(urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")):
        return False  # without this look Docker's client leaves an open socket behind
    try:
        with closing(docker.from_env(timeout=5)) as client:
            return bool(client.ping())
    except DockerException:
        return False


def _somebody_listens(address: SplitResult) -> bool:
    try:
        if address.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as unix:
                unix.connect(address.path)
        else:
            socket.create_connection((address.hostname or "", address.port or 2375), timeout=5).close()
    except OSError:
        return False
    return True


def plan(service: Mapping[str, Any], keys: Callable[[str], str], ports: Mapping[str, str]) -> dict[str, Any]:
    """What a service of compose.yaml is to a container: image, command, env, published ports, volumes.

    ``keys`` gives the secret of a name; ``ports`` maps the ports of stack.toml to those of this session.
    """

    def filled(text: str) -> str:
        text = _ASKED.sub(lambda asked: keys(asked.group(1)), str(text)).replace("$$", "$")
        for port, own in ports.items():
            text = re.sub(rf"\b{port}\b", own, text)
        return text

    return {
        "image": service["image"],
        "entrypoint": [filled(word) for word in service.get("entrypoint", [])] or None,
        "command": [filled(word) for word in service.get("command", [])] or None,
        "env": {name: filled(value) for name, value in service.get("environment", {}).items()},
        "ports": dict(_published(filled(port)) for port in service.get("ports", [])),
        "volumes": [volume.split(":")[:2] for volume in service.get("volumes", [])],
    }


def _published(text: str) -> tuple[int, int]:
    """Port in the container, and on the host, of ``host:outside:inside``."""
    _, outside, inside = text.split(":")
    return int(inside), int(outside)


@contextmanager
def running(home: Path) -> Iterator[Addresses]:
    """The four servers, each ready; gone afterwards. What they keep is below ``home``."""
    own = Ports.free()
    ports = {str(port): str(getattr(own, key)) for name in PROGRAMS for key, port in program(name).ports.items()}
    made: dict[str, str] = {}

    def keys(name: str) -> str:
        return made.setdefault(name, secrets.token_hex(16))

    addresses = Addresses(
        kafka=f"127.0.0.1:{own.kafka}",
        postgres=f"postgresql://headwater:{keys('POSTGRES_PASSWORD')}@127.0.0.1:{own.postgres}/headwater",
        s3=f"http://{keys('S3_ACCESS_KEY')}:{keys('S3_SECRET_KEY')}@127.0.0.1:{own.s3}/headwater?region=us-east-1",
        lakefs=f"http://{keys('LAKEFS_ACCESS_KEY')}:{keys('LAKEFS_SECRET_KEY')}@127.0.0.1:{own.lakefs}",
    )
    with ExitStack() as started:
        network = started.enter_context(Network())
        for name, service in servers().items():
            container = _container(plan(service, keys, ports), home)
            started.enter_context(container.with_network(network).with_network_aliases(name))
            if name in PROGRAMS:
                _wait(PROGRAMS[name], getattr(addresses, name))
            else:
                container.get_wrapped_container().wait(timeout=_SECONDS)
        create_bucket(addresses.s3)
        yield addresses


def _container(planned: Mapping[str, Any], home: Path) -> DockerContainer:
    container = DockerContainer(planned["image"])
    if planned["command"]:
        container.with_command(planned["command"])
    if planned["entrypoint"]:
        container.with_kwargs(entrypoint=planned["entrypoint"])
    for name, value in planned["env"].items():
        container.with_env(name, value)
    for inside, outside in planned["ports"].items():
        container.with_bind_ports(inside, outside)
    for place, inside in planned["volumes"]:
        if place.startswith("./"):
            container.with_volume_mapping(str(compose_file(place)), inside, "ro")
            continue
        folder = home / place
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # the images have users of their own
        container.with_volume_mapping(str(folder), inside, "rw")
    return container


def _wait(server: Server, address: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            server.answer(address)
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
