"""compose.yaml is what stack.toml says, and its processes are ours. No Docker engine is asked: it is only read here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from headwater.cli.app import app
from headwater.cli.run import GROUPS
from headwater.settings import load
from headwater.stack import compose
from headwater.stack.description import compose_file, program

FILE = compose_file("compose.yaml")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text("utf-8"))["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "headwater"}
PROCESSES = {name: service for name, service in OURS.items() if name != "prepare"}


def filled(value: str, **given: str) -> str:
    """As Compose does it: ``${NAME:-default}`` and ``${NAME:?message}``."""

    def fill(found: re.Match[str]) -> str:
        return given.get(found["name"], found["rest"] if found["kind"] == "-" else "secret0")

    return re.sub(r"\$\{(?P<name>\w+):(?P<kind>[-?])(?P<rest>[^}]*)\}", fill, value)


def test_the_file_is_what_its_module_makes() -> None:
    assert FILE.read_text("utf-8") == compose.text(), "run: python -m headwater.stack.compose"


@pytest.mark.parametrize("name", ["kafka", "postgres", "s3", "lakefs"])
def test_a_server_has_the_version_of_the_description_and_its_port_on_the_loopback_only(name: str) -> None:
    assert SERVICES[name]["image"].endswith(program(name).version)
    [published] = SERVICES[name]["ports"]
    assert published.startswith(f"127.0.0.1:{program(name).ports[name]}:")


def test_the_broker_has_every_setting_of_the_description_but_where_it_listens() -> None:
    environment = SERVICES["kafka"]["environment"]
    for setting, value in program("kafka").settings.items():
        variable = f"KAFKA_{setting.upper().replace('.', '_')}"
        if setting != "listener.security.protocol.map":
            assert environment[variable].lower() == str(value).lower()
    listens = {part.partition("://")[0] for part in environment["KAFKA_LISTENERS"].split(",")}
    mapped = {part.partition(":")[0] for part in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")}
    assert listens == mapped


def test_there_is_a_container_for_each_group_an_agent_the_api_and_a_worker() -> None:
    assert PROCESSES.keys() == {*GROUPS, "agent", "api", "worker"}
    assert {service["command"][1] for service in PROCESSES.values() if service["command"][0] == "run"} == set(GROUPS)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_has_a_command_line_that_ours_understands(name: str) -> None:
    group: Any = typer.main.get_command(app)
    command, *arguments = [filled(word) for word in PROCESSES[name]["command"]]
    group.commands[command].make_context(command, arguments)


@pytest.mark.parametrize("name", OURS)
def test_a_process_has_settings_that_name_all_servers_by_their_containers(name: str, tmp_path: Path) -> None:
    environment = {key: filled(value) for key, value in OURS[name]["environment"].items()}
    settings = load(environment=environment, folder=tmp_path)
    assert settings.needed_kafka().bootstrap_servers == "kafka:9092"
    assert "@postgres:5432/headwater" in settings.needed_catalog().dsn
    assert settings.needed_s3().endpoint == "http://s3:7070"
    assert settings.needed_lakefs().endpoint == "http://lakefs:8000"
    assert (settings.http.host, settings.http.port) == ("0.0.0.0", compose.HTTP_PORT)
    assert f"{settings.state_folder}" in {volume.partition(":")[2] for volume in OURS[name]["volumes"]}


def test_a_worker_finds_the_api_and_shares_its_key_and_tenants_reach_it_from_the_host(tmp_path: Path) -> None:
    api, worker = (
        load(environment={key: filled(value) for key, value in OURS[name]["environment"].items()}, folder=tmp_path)
        for name in ("api", "worker")
    )
    assert worker.worker.endpoint == f"http://api:{api.api.internal_port}"
    assert worker.worker.key == api.worker.key != ""
    assert (api.api.host, api.api.internal_host) == ("0.0.0.0", "0.0.0.0")
    assert OURS["api"]["ports"] == [f"127.0.0.1:{api.api.port}:{api.api.port}"]


def test_what_reads_the_source_sees_it_in_the_agents_place_and_cannot_write() -> None:
    for name in ("agent", "upload-files", "upload-parts"):
        [mounted] = [volume for volume in PROCESSES[name]["volumes"] if ":/source" in volume]
        assert mounted.endswith(":/source:ro")
    assert PROCESSES["agent"]["command"][1] == "/source"
    assert "LEASE" in PROCESSES["agent"]["cap_add"]


def test_no_secret_stands_in_the_file_and_each_is_asked_for() -> None:
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|ACCESS_KEY|://[^/]*@", f"{key}={value}"):
                assert re.search(r"\$\{\w+:\?", str(value)), key


def test_every_volume_is_declared_and_every_file_that_is_mounted_exists() -> None:
    declared = yaml.safe_load(FILE.read_text("utf-8"))["volumes"]
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            where = volume.partition(":")[0]
            if where.startswith("./"):
                assert (FILE.parent / where).is_dir(), where
            elif not where.startswith("$"):
                assert where in declared, where


def test_prometheus_scrapes_every_process() -> None:
    [job] = yaml.safe_load(compose_file("prometheus", "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    targets = job["static_configs"][0]["targets"]
    assert job["job_name"] == "headwater"
    assert targets == [f"{name}:{compose.HTTP_PORT}" for name in PROCESSES]


def test_prometheus_accepts_its_configuration(promtool: Path) -> None:
    argv = [promtool, "check", "config", compose_file("prometheus", "prometheus.yml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
