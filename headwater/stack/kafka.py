"""Apache Kafka in KRaft mode: one node that is broker and controller.

Its quick start rests on class data sharing: the JVM's archive of parsed classes is made once, when the jars are
fetched, by running a broker of its own until it answers (JEP 350, -XX:ArchiveClassesAtExit).
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.rules.errors import Unavailable
from headwater.stack import cache, processes, toolchains
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports, Program, compose_file, program
from headwater.stack.home import LOOPBACK, Place
from headwater.stack.progress import Report, silent, step
from headwater.stack.secrets import Secrets
from headwater.stack.server import require_free_ports, require_listener, wait_until_it_answers

ARCHIVE_SECONDS = 15.0


class Kafka:
    name = "kafka"
    stop_signal = signal.SIGTERM

    @property
    def _program(self) -> Program:
        return program(self.name)

    def prepare(self, report: Report) -> None:
        java = toolchains.java(report)
        cache.built(self._jars(), lambda folder: self._fetch(folder, report))
        cache.built(self._archive(java), lambda folder: self._make_archive(java, folder, report))

    def start(self, place: Place, addresses: Addresses) -> None:  # noqa: ARG002
        java = toolchains.java(silent)
        self._start(java, place, f"-XX:SharedArchiveFile={self._archive(java) / 'classes.jsa'}")

    def answer(self, address: str) -> str:
        for broker in address.split(","):
            host, _, port = broker.strip().rpartition(":")
            require_listener(host, int(port))
        try:
            metadata = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=5)
        except KafkaException as failure:
            raise Unavailable(f"The broker at {address} does not answer: {failure}.") from failure
        if not metadata.brokers:
            raise Unavailable(f"The broker at {address} has not registered yet.")
        return f"cluster {metadata.cluster_id}, {len(metadata.brokers)} broker(s)"

    def finish(self, place: Place, address: str) -> None:
        """Nothing: topics come from the catalogue."""

    def _jars(self) -> Path:
        return cache.entry("kafka", self._program.version, [compose_file("kafka", "pom.xml").read_bytes()])

    def _archive(self, java: Path) -> Path:
        # An archive fits one JVM and one list of jars; the JVM ignores one that does not fit.
        release = java.resolve().parent.parent / "release"
        jvm = release.read_bytes() if release.exists() else str(java.resolve()).encode()
        return cache.entry("kafka-classes", self._program.version, [jvm, str(self._jars()).encode(), *self._flags()])

    def _flags(self) -> list[bytes]:
        return [flag.encode() for flag in self._program.options["java_flags"]]

    def _fetch(self, folder: Path, report: Report) -> None:
        maven = toolchains.maven(report)
        with step(report, self.name, f"fetch the jars of Kafka {self._program.version}", self._program.build_seconds):
            toolchains.run([
                str(maven), "-q", "-B", "-f", str(compose_file("kafka", "pom.xml")),
                "dependency:copy-dependencies", f"-DoutputDirectory={folder}",
            ])  # fmt: skip

    def _make_archive(self, java: Path, folder: Path, report: Report) -> None:
        with (
            step(report, self.name, "make Kafka's class archive", ARCHIVE_SECONDS),
            tempfile.TemporaryDirectory(prefix="headwater-kafka-") as scratch,
        ):
            place = Place(Path(scratch), Ports.free(), Secrets.of(Path(scratch)))
            self._start(java, place, f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}")
            try:
                wait_until_it_answers(self, place, place.addresses().kafka)
            finally:
                processes.stop(self.name, place.home, grace_seconds=60)

    def _start(self, java: Path, place: Place, archive: str) -> None:
        if processes.alive(self.name, place.home):
            return
        require_free_ports(self.name, place.ports.of(self.name))
        properties = self._write_properties(place)
        command = [str(java), *self._program.options["java_flags"], archive, "-cp", f"{self._jars()}/*"]
        if not (place.home / "kafka" / "data" / "meta.properties").exists():
            self._format([flag for flag in command if "ArchiveClassesAtExit" not in flag], properties)
        processes.start_detached(self.name, [*command, "kafka.Kafka", str(properties)], os.environ, place.home)

    def _format(self, command: list[str], properties: Path) -> None:
        # A leading dash would be read as an option.
        cluster = "h" + urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]
        done = subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Unavailable(f"Kafka's storage could not be formatted: {(done.stdout + done.stderr).strip()[-800:]}")

    def _write_properties(self, place: Place) -> Path:
        path = place.home / "kafka" / "server.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(properties_text(self._program.settings, place.ports, path.parent / "data"), encoding="utf-8")
        return path


def properties_text(settings: Mapping[str, str | int | bool], ports: Ports, data: Path) -> str:
    """``server.properties``: the settings of ``stack.toml`` with this stack's ports and folder."""
    listener, controller = f"PLAINTEXT://{LOOPBACK}:{ports.kafka}", f"{LOOPBACK}:{ports.kafka_controller}"
    own = {
        "listeners": f"{listener},CONTROLLER://{controller}",
        "advertised.listeners": listener,
        "controller.quorum.voters": f"{settings['node.id']}@{controller}",
        "log.dirs": data,
    }
    # Property files spell booleans in lower case.
    described = {key: str(value).lower() if isinstance(value, bool) else value for key, value in settings.items()}
    return "".join(f"{key}={value}\n" for key, value in (described | own).items())
