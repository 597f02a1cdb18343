"""``stack.toml`` against the files that it must agree with, and what is made from it."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headwater.stack.description import PROGRAMS, Ports, compose_file, program, toolchain
from headwater.stack.kafka import properties_text


def test_the_pom_fetches_the_kafka_that_the_description_names() -> None:
    versions = {
        dependency.findtext("{*}artifactId"): dependency.findtext("{*}version")
        for dependency in ElementTree.parse(compose_file("kafka", "pom.xml")).findall(".//{*}dependency")
    }
    assert versions["kafka_2.13"] == program("kafka").version
    assert versions["kafka-tools"] == program("kafka").version


@pytest.mark.parametrize(
    ("name", "folder", "module"),
    [("s3", "versitygw", "github.com/versity/versitygw"), ("lakefs", "lakefs", "github.com/treeverse/lakefs")],
)
def test_the_go_module_builds_the_version_that_the_description_names(name: str, folder: str, module: str) -> None:
    text = compose_file(folder, "go.mod").read_text(encoding="utf-8")
    assert re.search(rf"{module} v(\S+)", text)[1] == program(name).version  # type: ignore[index]
    assert re.search(r"^go (\S+)$", text, re.MULTILINE)[1] == toolchain("go")  # type: ignore[index]
    assert f"{module} v{program(name).version} h1:" in compose_file(folder, "go.sum").read_text(encoding="utf-8")


def test_every_program_listens_on_a_port_of_its_own() -> None:
    ports = Ports.default()
    assert len(set(astuple(ports))) == len(astuple(ports))
    assert {name for name in PROGRAMS if not ports.of(name)} == set()


def test_free_ports_all_differ() -> None:
    chosen = astuple(Ports.free())
    assert len(set(chosen)) == len(chosen)


def test_kafka_listens_on_the_loopback_only_and_creates_no_topic_by_itself() -> None:
    ports = Ports(kafka=1, kafka_controller=2, postgres=3, s3=4, lakefs=5)
    text = properties_text(program("kafka").settings, ports, Path("/state/data"))
    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert lines["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1"
    assert lines["controller.quorum.voters"] == "1@127.0.0.1:2"
    assert lines["log.dirs"] == "/state/data"
    assert lines["auto.create.topics.enable"] == "false"
    assert lines["transaction.state.log.replication.factor"] == "1"
