"""The one settings object: a TOML file < the environment < flags, checked when a process starts.

    site = "lab-1"                                 HEADWATER_SITE
    [kafka]                                        HEADWATER_KAFKA=broker-1:9092,broker-2:9092
    bootstrap_servers = "broker-1:9092"            HEADWATER_KAFKA__BOOTSTRAP_SERVERS
    [kafka.client]                                 (librdkafka's own settings: TLS, SASL, …)
    "security.protocol" = "SASL_SSL"               HEADWATER_KAFKA__CLIENT__SECURITY_PROTOCOL
    "sasl.password_file" = "/run/secrets/kafka"    HEADWATER_KAFKA__CLIENT__SASL_PASSWORD
    [catalog]                                      HEADWATER_POSTGRES=postgresql://user:password@host/database
    dsn = "postgresql://headwater@db/headwater"    HEADWATER_CATALOG__DSN
    [s3]                                           HEADWATER_S3=https://access:secret@host/bucket?region=eu-west-1
    secret_access_key_file = "/run/secrets/s3"     HEADWATER_S3__SECRET_ACCESS_KEY
    [lakefs]                                       HEADWATER_LAKEFS=https://key:secret@host
    [sources.photos]
    root = "/mnt/photos"                           HEADWATER_SOURCES__PHOTOS__ROOT
    [peer]
    into = "/srv/models"                           HEADWATER_PEER__INTO
    key_file = "/run/secrets/peer"                 HEADWATER_PEER__KEY
    [client]                                       HEADWATER_API=https://videos.example.org
    key_file = "/run/secrets/video"                HEADWATER_CLIENT__KEY
    [worker]
    key_file = "/run/secrets/worker"               HEADWATER_WORKER__KEY
    [worker.options]                               (of the model that it runs)

Secrets come from variables or from files of their own (``<name>_file``), never from flags or the settings file. Where
a server is named nowhere, the local stack that runs in the state folder is used; so are the keys that it made, by peers
that meet on its Kafka and by workers and commands that use its jobs, unless they are given others.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import platformdirs

from headwater.connectors.api.config import ClientConfig
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.lakefs.config import LakeFSConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.web.config import WebConfig
from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.webhooks.config import WebhooksConfig
from headwater.consumers.worker.config import WorkerConfig
from headwater.observe.config import HttpConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.filesystem.config import AgentConfig
from headwater.rules.errors import BadSettings
from headwater.rules.jobs.failures import FailurePolicy
from headwater.settings.build import build, not_a_section, refuse_unknown
from headwater.settings.layers import Given, Layer, find_file, from_environment, from_file, from_flags, merged
from headwater.settings.stack import StackConfig
from headwater.streams.commit.config import CommitConfig
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.upload.config import UploadConfig
from headwater.streams.verify.config import VerifyConfig

__all__ = ["Settings", "load"]

Section = TypeVar("Section")


def _site() -> str:
    return socket.gethostname().partition(".")[0]


def _state_folder() -> Path:
    return platformdirs.user_data_path("headwater")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the sections below build upon."""

    site: str = field(default_factory=_site)
    """Names this site's topics and groups. By default the host's name."""
    dataset: str = "main"
    """The dataset that sources feed unless they name another."""
    state_folder: Path = field(default_factory=_state_folder)
    """Indexes, locks, pid files, logs and the local stack."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Installation):
    """Everything that a process is told. Secrets are masked in its repr by the sections that hold them."""

    kafka: KafkaConfig | None = None
    catalog: CatalogConfig | None = None
    s3: S3Config | None = None
    lakefs: LakeFSConfig | None = None
    http: HttpConfig = field(default_factory=HttpConfig)
    stack: StackConfig = field(default_factory=StackConfig)
    member: MemberConfig
    upload: UploadConfig
    verify: VerifyConfig = field(default_factory=VerifyConfig)
    commit: CommitConfig
    peer: PeerConfig = field(default_factory=PeerConfig)
    jobs: JobsConfig = field(default_factory=JobsConfig)
    api: ApiConfig = field(default_factory=ApiConfig)
    web: WebConfig = field(default_factory=WebConfig)
    webhooks: WebhooksConfig = field(default_factory=WebhooksConfig)
    failures: FailurePolicy = field(default_factory=FailurePolicy)
    worker: WorkerConfig
    client: ClientConfig
    sources: Mapping[str, AgentConfig]

    def source(self, name: str, root: Path) -> AgentConfig:
        """The settings of a source with this root; those of a source that the settings do not name are the defaults."""
        if name in self.sources:
            return replace(self.sources[name], root=root)
        return _source(name, {"root": Given(str(root), "the command line", Path.cwd())}, self)

    def needed_kafka(self) -> KafkaConfig:
        return _present(self.kafka, "kafka.bootstrap_servers", "HEADWATER_KAFKA")

    def needed_catalog(self) -> CatalogConfig:
        return _present(self.catalog, "catalog.dsn", "HEADWATER_POSTGRES")

    def needed_jobs(self) -> JobsConfig:
        return self.jobs if self.jobs.dsn else replace(self.jobs, dsn=self.needed_catalog().dsn)

    def needed_s3(self) -> S3Config:
        return _present(self.s3, "s3.bucket", "HEADWATER_S3")

    def needed_lakefs(self) -> LakeFSConfig:
        return _present(self.lakefs, "lakefs.endpoint", "HEADWATER_LAKEFS")


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Iterable[str] = (),
    folder: Path | None = None,
    local_stack: Callable[[Path], Mapping[str, str]] | None = None,
) -> Settings:
    """The settings of this process. ``flags`` are ``section.key=value``; ``folder`` is where relative paths start.

    ``local_stack`` gives the stack that runs in a state folder, if one does: its addresses and its peers' key, as
    variables.
    Raises BadSettings, which names the key, the value, where it came from, and the fix.
    """
    folder = folder or Path.cwd()
    found = find_file(file, environment, folder)
    given = merged(
        from_file(found) if found else {},
        _addresses(environment, folder),
        _others(environment, folder),
        from_flags(flags, folder),
    )
    refuse_unknown(given, _NAMES)
    here = build(Installation, {name: given[name] for name in _INSTALLATION if name in given})
    local = local_stack(here.state_folder) if local_stack else {}
    given = _completed(given, merged(_addresses(local, folder), _others(local, folder)))
    parts = {
        name: _section(given, name) for name in ("member", "upload", "commit", "api", "worker", "client", "sources")
    }
    slots = Given(str(here.state_folder / "slots"), "state_folder", here.state_folder)
    work = Given(str(here.state_folder / "work"), "state_folder", here.state_folder)
    api = build(ApiConfig, parts["api"], "api.")
    return build(
        Settings,
        {name: item for name, item in given.items() if name not in parts},
        member=build(MemberConfig, {"slot_folder": slots, **parts["member"]}, "member."),
        upload=build(UploadConfig, parts["upload"], "upload.", site=here.site),
        commit=build(CommitConfig, parts["commit"], "commit.", dataset=here.dataset),
        api=api,
        worker=build(
            WorkerConfig,
            {"endpoint": _on_this_host(api.internal_port), "work_folder": work, **parts["worker"]},
            "worker.",
        ),
        client=build(ClientConfig, {"url": _on_this_host(api.port), **parts["client"]}, "client."),
        sources={name: _source(name, _section(parts["sources"], name, "sources."), here) for name in parts["sources"]},
    )


def _completed(given: Layer, local: Layer) -> Layer:
    """A server that is named nowhere is the local stack's; if there is none, its section is left out.

    With its Kafka goes its peers' key, with its PostgreSQL the keys of its workers and of its tenant, where the section
    names no service elsewhere: who meets elsewhere must be given the key that is known there.
    """
    result = dict(given)
    for section, (noun, address) in _SERVERS.items():
        values = given.get(section, {})
        if isinstance(values, Given) or address in values or values.keys() - {field.name for field in fields(noun)}:
            continue  # complete, or wrong in a way that building it will name
        result.pop(section, None)
        if section in local:
            result |= merged({section: local[section]}, {section: values})
            for lent, elsewhere in _LENT.get(section, {}).items():
                own = given.get(lent, {})
                if lent in local and not isinstance(own, Given) and elsewhere not in own:
                    result |= merged({lent: local[lent]}, {lent: own})
    return result


def _on_this_host(port: int) -> Given:
    return Given(f"http://127.0.0.1:{port}", "api", Path())


def _section(given: Layer, name: str, above: str = "") -> Layer:
    item = given.get(name, {})
    if isinstance(item, Given):
        raise not_a_section(f"{above}{name}", item)
    return item


def _source(name: str, section: Layer, here: Installation) -> AgentConfig:
    dataset = Given(here.dataset, "dataset", Path())
    return build(
        AgentConfig,
        {"dataset": dataset, **section},
        f"sources.{name}.",
        source=name,
        site=here.site,
        state_folder=here.state_folder / "sources" / name,
    )


_NAMES = [field.name for field in fields(Settings)]
_INSTALLATION = [field.name for field in fields(Installation)]
_SERVERS: dict[str, tuple[type[Any], str]] = {
    "kafka": (KafkaConfig, "bootstrap_servers"),
    "catalog": (CatalogConfig, "dsn"),
    "s3": (S3Config, "bucket"),
    "lakefs": (LakeFSConfig, "endpoint"),
}
"""The section of each server: its class, and the key without which there is no such server."""
_LENT = {"kafka": {"peer": "key"}, "catalog": {"client": "url", "worker": "endpoint"}}
"""Sections that get a key with the local stack's server, unless they have this setting of their own."""
_ADDRESSES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "HEADWATER_KAFKA": ("kafka", KafkaConfig),
    "HEADWATER_POSTGRES": ("catalog", CatalogConfig),
    "HEADWATER_S3": ("s3", S3Config.from_url),
    "HEADWATER_LAKEFS": ("lakefs", LakeFSConfig.from_url),
    "HEADWATER_API": ("client", lambda url: ClientConfig(url=url)),
}


def _addresses(environment: Mapping[str, str], folder: Path) -> Layer:
    """The short variables, each of them an address that says several settings of its section."""
    layer: Layer = {}
    for variable, (section, read) in _ADDRESSES.items():
        if environment.get(variable):
            server = read(environment[variable])
            said = {field.name: getattr(server, field.name) for field in fields(server)}
            defaults = {field.name: field.default for field in fields(server)}
            layer[section] = {
                name: Given(value, variable, folder)
                for name, value in said.items()
                if value != defaults[name] and value != {}
            }
    return layer


def _others(environment: Mapping[str, str], folder: Path) -> Layer:
    """What the other variables say, each of them one setting."""
    rest = {name: value for name, value in environment.items() if name not in _ADDRESSES}
    return from_environment(rest, _NAMES, folder)


def _present(section: Section | None, key: str, variable: str) -> Section:
    if section is None:
        raise BadSettings(
            f"{key} is not set, and no local stack runs.",
            asked="Reading the settings.",
            advice=f"Run `headwater up` for a local stack, or set {variable} (or {key} in headwater.toml).",
            key=key,
        )
    return section
