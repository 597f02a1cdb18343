"""``compose/compose.yaml``: the same stack as containers, and one container a process of ours, from ``stack.toml``.

    python -m headwater.stack.compose          writes it anew; a test refuses a file that differs from this module

A service is a mapping as Compose wants it. A key that begins with ``#`` is a comment, and becomes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwater.stack.description import compose_file, image, program

Service = dict[str, Any]

GROUPS = (
    "upload-files", "upload-parts", "verify-objects", "verify-large", "commit", "views", "gossip",
    "outbox", "dispatch", "sweep", "webhooks",
)  # fmt: skip
"""What `headwater run` runs, a container each."""

HTTP_PORT = 9470
"""Where each container of ours serves metrics, health and schemas, inside the network of the containers."""

HEADER = """\
# Kafka, PostgreSQL, an S3 server, lakeFS and headwater's own processes, as containers on one host.
# Written by `python -m headwater.stack.compose` from stack.toml: change those, not this file.
# How to use it, and what it is not for: docs/operations.md.
"""

API_PORT, INTERNAL_PORT = 18080, 18081
"""Of the HTTP service: for tenants, and for workers."""

_KAFKA, _POSTGRES, _S3, _LAKEFS = 9092, 5432, 7070, 8000
"""The ports inside the network of the containers. On the host's loopback they are those of stack.toml."""


def text() -> str:
    """The whole file."""
    document = {
        "name": "headwater",
        "services": {
            **servers(),
            "prepare": _prepare(),
            "agent": _agent(),
            **{group: _member(group) for group in GROUPS},
            "api": _api(),
            "worker": _worker(),
            **_watching(),
        },
        "volumes": {name: {} for name in _VOLUMES},
    }
    return HEADER + "\n".join(_yaml(document)) + "\n"


_VOLUMES = ("kafka", "postgres", "objects", "versions", "state", "source-state", "prometheus", "grafana")


def servers() -> dict[str, Service]:
    """The four servers, and what sets up the last of them, in the order in which they start."""
    return {"kafka": _kafka(), "postgres": _postgres(), "s3": _s3(), "lakefs-setup": _setup(), "lakefs": _lakefs()}


def _kafka() -> Service:
    outside = program("kafka").ports["kafka"]
    settings = {
        **program("kafka").settings,
        "listeners": f"PLAINTEXT://:{_KAFKA},HOST://:{outside},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://kafka:{_KAFKA},HOST://127.0.0.1:{outside}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
        "controller.quorum.voters": f"{program('kafka').settings['node.id']}@kafka:9093",
        "log.dirs": "/var/lib/kafka/data",
    }
    flags = program("kafka").options["java_flags"]
    return {
        "image": image("kafka"),
        "restart": "unless-stopped",
        "stop_grace_period": "60s",
        "environment": {
            "CLUSTER_ID": "headwaterLocalStack00A",
            "KAFKA_HEAP_OPTS": " ".join(flag for flag in flags if flag.startswith("-Xm")),
            **{f"KAFKA_{name.upper().replace('.', '_')}": _setting(value) for name, value in settings.items()},
        },
        "ports": [f"127.0.0.1:{outside}:{outside}"],
        "volumes": ["kafka:/var/lib/kafka/data"],
    }


def _setting(value: str | int | bool) -> str:
    """Property files spell booleans in lower case; Compose wants strings."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _postgres() -> Service:
    # The image's own scripts start it by its socket; on the host it is switched off.
    settings = {key: value for key, value in program("postgres").settings.items() if key != "unix_socket_directories"}
    return {
        "image": image("postgres"),
        "restart": "unless-stopped",
        "stop_signal": "SIGINT",
        "command": ["postgres", *(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))],
        "environment": {
            "POSTGRES_USER": "headwater",
            "POSTGRES_PASSWORD": _secret("POSTGRES_PASSWORD"),
            "POSTGRES_DB": "headwater",
        },
        "ports": _published("postgres", _POSTGRES),
        "volumes": ["postgres:/var/lib/postgresql", "./postgres:/docker-entrypoint-initdb.d:ro"],
        "healthcheck": {
            "test": ["CMD", "pg_isready", "-U", "headwater", "-h", "127.0.0.1"],
            "interval": "2s",
            "retries": 60,
        },
    }


def _s3() -> Service:
    region = program("s3").options["region"]
    return {
        "image": image("s3"),
        "restart": "unless-stopped",
        "command": [
            "--port", f":{_S3}", "--region", region, "--keep-alive", "--quiet",
            "posix", "--versioning-dir", "/versions", "/objects",
        ],
        "environment": {
            "ROOT_ACCESS_KEY": _secret("S3_ACCESS_KEY"),
            "ROOT_SECRET_KEY": _secret("S3_SECRET_KEY"),
        },
        "ports": _published("s3", _S3),
        "volumes": ["objects:/objects", "versions:/versions"],
    }  # fmt: skip


def _setup() -> Service:
    """Makes lakeFS's administrator, once."""
    keys = '--access-key-id "$$ACCESS_KEY" --secret-access-key "$$SECRET_KEY"'
    return {
        "image": image("lakefs"),
        "#": "The first time it makes the administrator; every other time it fails, because there is one.",
        "entrypoint": ["/bin/sh", "-c", f"/app/lakefs setup --user-name headwater {keys} --no-check || true"],
        "environment": {
            **_lakefs_settings(),
            "ACCESS_KEY": _secret("LAKEFS_ACCESS_KEY"),
            "SECRET_KEY": _secret("LAKEFS_SECRET_KEY"),
        },
        "depends_on": {"postgres": {"condition": "service_healthy"}},
    }


def _lakefs() -> Service:
    return {
        "image": image("lakefs"),
        "restart": "unless-stopped",
        "environment": _lakefs_settings(),
        "ports": _published("lakefs", _LAKEFS),
        "depends_on": {"lakefs-setup": {"condition": "service_completed_successfully"}},
    }


def _lakefs_settings() -> dict[str, str]:
    """As ``headwater.stack.lakefs`` sets it on a host, in lakeFS's names of variables."""
    address = f"postgresql://headwater:{_secret('POSTGRES_PASSWORD')}@postgres:{_POSTGRES}/lakefs"
    return {
        "LAKEFS_LISTEN_ADDRESS": f"0.0.0.0:{_LAKEFS}",
        "LAKEFS_LOGGING_LEVEL": "WARN",
        "LAKEFS_DATABASE_TYPE": "postgres",
        "LAKEFS_DATABASE_POSTGRES_CONNECTION_STRING": address,
        "LAKEFS_AUTH_ENCRYPT_SECRET_KEY": _secret("LAKEFS_ENCRYPTION_KEY"),
        "LAKEFS_BLOCKSTORE_TYPE": "s3",
        "LAKEFS_BLOCKSTORE_S3_ENDPOINT": f"http://s3:{_S3}",
        "LAKEFS_BLOCKSTORE_S3_FORCE_PATH_STYLE": "true",
        "LAKEFS_BLOCKSTORE_S3_DISCOVER_BUCKET_REGION": "false",
        "LAKEFS_BLOCKSTORE_S3_REGION": program("s3").options["region"],
        "LAKEFS_BLOCKSTORE_S3_CREDENTIALS_ACCESS_KEY_ID": _secret("S3_ACCESS_KEY"),
        "LAKEFS_BLOCKSTORE_S3_CREDENTIALS_SECRET_ACCESS_KEY": _secret("S3_SECRET_KEY"),
        "LAKEFS_STATS_ENABLED": "false",
        "LAKEFS_SECURITY_CHECK_LATEST_VERSION": "false",
    }


def _prepare() -> Service:
    return {
        **_ours("prepare", "state", "/var/lib/headwater"),
        "#": "The catalog's tables, the topics and the bucket; tried until all servers answer.",
        "entrypoint": [
            "/bin/sh",
            "-c",
            "until headwater up --servers && headwater pools set demo; do sleep 3; done",
        ],
        "restart": "no",
        "healthcheck": {"disable": True},
        "depends_on": {
            "kafka": {"condition": "service_started"},
            "postgres": {"condition": "service_healthy"},
            "s3": {"condition": "service_started"},
            "lakefs": {"condition": "service_started"},
        },
    }


def _agent() -> Service:
    return {
        **_reads_the_source("agent"),
        "#": "Without CAP_LEASE it cannot tell who writes to a file, and waits 30 s instead of 2.",
        "cap_add": ["DAC_READ_SEARCH", "LEASE"],
        "command": ["sync", "/source", "--source", "${HEADWATER_SOURCE:-files}"],
    }


def _member(group: str) -> Service:
    upload = group.startswith("upload-")
    base = _reads_the_source(group) if upload else _ours(group, "state", "/var/lib/headwater")
    return {**base, "command": ["run", group]}


def _api() -> Service:
    """On the host's loopback for tenants; workers reach it inside the network of the containers."""
    base = _ours("api", "state", "/var/lib/headwater")
    listens = {"HEADWATER_API__HOST": "0.0.0.0", "HEADWATER_API__INTERNAL_HOST": "0.0.0.0"}
    return {
        **base,
        "command": ["api"],
        "environment": {**base["environment"], **listens, "HEADWATER_WORKER__KEY": _secret("WORKER_KEY")},
        "ports": [f"127.0.0.1:{API_PORT}:{API_PORT}"],
    }


def _worker() -> Service:
    """The test card needs no GPU; a worker of another model is one like it, with its devices."""
    base = _ours("worker", "state", "/var/lib/headwater")
    endpoint = {"HEADWATER_WORKER__ENDPOINT": f"http://api:{INTERNAL_PORT}"}
    return {
        **base,
        "command": ["worker", "--pool", "demo", "--model", "testcard"],
        "environment": {**base["environment"], **endpoint, "HEADWATER_WORKER__KEY": _secret("WORKER_KEY")},
    }


def _reads_the_source(name: str) -> Service:
    """Root, of whose powers only one is left: to read files of any owner. So its state must be its own."""
    base = _ours(name, "source-state", "/var/lib/headwater-source")
    return {
        **base,
        "user": "0:0",
        "cap_add": ["DAC_READ_SEARCH"],
        "volumes": [*base["volumes"], "${HEADWATER_SOURCE_FOLDER:?the folder to carry}:/source:ro"],
    }


def _ours(name: str, volume: str, state_folder: str) -> Service:
    """What all processes of ours share. The host's name is part of transactional ids: it must outlive the container."""
    s3 = program("s3").options
    return {
        "image": "headwater",
        "build": {"context": "..", "dockerfile": "compose/Dockerfile"},
        "hostname": name,
        "restart": "unless-stopped",
        "stop_grace_period": "60s",
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "environment": {
            "HEADWATER_SITE": "${HEADWATER_SITE:-docker}",
            "HEADWATER_STATE_FOLDER": state_folder,
            "HEADWATER_HTTP__HOST": "0.0.0.0",
            "HEADWATER_HTTP__PORT": str(HTTP_PORT),
            "HEADWATER_KAFKA": f"kafka:{_KAFKA}",
            "HEADWATER_POSTGRES": (
                f"postgresql://headwater:{_secret('POSTGRES_PASSWORD')}@postgres:{_POSTGRES}/headwater"
            ),
            "HEADWATER_S3": (
                f"http://{_secret('S3_ACCESS_KEY')}:{_secret('S3_SECRET_KEY')}@s3:{_S3}/{s3['bucket']}"
                f"?region={s3['region']}"
            ),
            "HEADWATER_LAKEFS": (
                f"http://{_secret('LAKEFS_ACCESS_KEY')}:{_secret('LAKEFS_SECRET_KEY')}@lakefs:{_LAKEFS}"
            ),
        },
        "volumes": [f"{volume}:{state_folder}"],
        "depends_on": {"prepare": {"condition": "service_completed_successfully"}},
    }


def _watching() -> dict[str, Service]:
    return {
        "prometheus": {
            "image": image("prometheus"),
            "profiles": ["watch"],
            "restart": "unless-stopped",
            "ports": ["127.0.0.1:19090:9090"],
            "volumes": ["./prometheus:/etc/prometheus:ro", "prometheus:/prometheus"],
        },
        "grafana": {
            "image": image("grafana"),
            "profiles": ["watch"],
            "restart": "unless-stopped",
            "environment": {"GF_SECURITY_ADMIN_PASSWORD": _secret("GRAFANA_PASSWORD")},
            "ports": ["127.0.0.1:13000:3000"],
            "volumes": [
                "./grafana:/etc/grafana/provisioning:ro",
                "./dashboards:/etc/headwater/dashboards:ro",
                "grafana:/var/lib/grafana",
            ],
        },
    }


def _secret(name: str) -> str:
    """Compose asks for it by name where neither the environment nor compose/.env gives it."""
    return f"${{{name}:?see docs/operations.md}}"


def _published(name: str, inside: int) -> list[str]:
    """The program's port of stack.toml, on the loopback only."""
    return [f"127.0.0.1:{program(name).ports[name]}:{inside}"]


def _yaml(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Block mappings; everything below that as JSON, which is YAML."""
    for key, item in value.items():
        if key.startswith("#"):
            yield f"{indent}# {item}"
        elif isinstance(item, Mapping) and item:
            yield f"{indent}{key}:"
            yield from _yaml(item, indent + "  ")
        else:
            yield f"{indent}{key}: {_flow(item)}"
        if indent == "  " or not indent:
            yield ""


def _flow(item: object) -> str:
    if isinstance(item, Iterable) and not isinstance(item, str | Mapping):
        return "[" + ", ".join(_flow(one) for one in item) + "]"
    return json.dumps(item, ensure_ascii=False)


if __name__ == "__main__":
    compose_file("compose.yaml").write_text(text(), encoding="utf-8")
