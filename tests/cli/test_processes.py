"""Everything up, a folder carried into versions, everything down: by the command line alone, on the real servers."""

import json
import os
import signal
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack
GROUPS = ["upload-files", "upload-parts", "verify-objects", "verify-large"]


@pytest.fixture
def dataset(kafka_prefix) -> str:
    return f"d{kafka_prefix.rstrip('.')}"


@pytest.fixture
def folder(on_stack, tmp_path, dataset, command, environment):  # noqa: ARG001  # the servers first
    """A source and a peer in a settings file; whatever a test starts is stopped after it."""
    root = tmp_path / "photos"
    root.mkdir()
    (tmp_path / "headwater.toml").write_text(
        f'dataset = "{dataset}"\n[sources.photos]\nroot = "photos"\nsettle_seconds = 0.1\ndelete_hold_seconds = 0.5\n'
        '[peer]\nhost = "node-7"\nrack = "r1"\ninto = "casts"\n'
    )
    environment["HEADWATER_PEER__KEY"] = "a key of this test's own fleet"
    yield root
    assert command("down").code == 0


def processes(command) -> dict[str, dict]:
    return {process["name"]: process for process in command("status", "--json").json["processes"]}


def verified(command) -> int:
    sources = command("progress", "--json").json["sources"]
    return sources[0]["verified"]["count"] if sources else 0


def test_a_folder_becomes_versions_by_commands_alone(folder, command, dataset, eventually, tmp_path):
    (folder / "a.jpg").write_bytes(b"a" * 1000)
    (folder / "odd\nname.jpg").write_bytes(b"odd")

    up = command("up", "--json")

    assert up.code == 0, up.err
    names = ["agent-photos", *GROUPS, "gossip", f"commit-{dataset}", "views", "peer"]
    assert [process["name"] for process in up.json["processes"]] == names
    assert {process["state"] for process in up.json["processes"]} <= {"running", "paused"}
    assert {server["state"] for server in up.json["servers"]} == {"external"}

    assert "conditional create, checksums when_supported" in command("logs", "upload-files").out

    eventually(lambda: verified(command) == 2, within_seconds=60)
    first = command("dataset", "commit", "-m", "first", "--json").json
    assert (first["version"], first["added"], first["files"]) == (1, 2, 2)

    killed = processes(command)["upload-files"]["pid"]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: processes(command)["upload-files"]["state"] == "stopped")
    for twin in ("b.jpg", "B.jpg"):
        (folder / twin).write_text(twin[0])
    (folder / "a.jpg").rename(folder / "c.jpg")
    again = command("up")
    assert again.code == 0
    assert again.out.count("started") == 1
    now = processes(command)
    assert now["upload-files"]["pid"] != killed
    assert now["verify-objects"]["pid"] == up.json["processes"][names.index("verify-objects")]["pid"]

    eventually(lambda: verified(command) == 4, within_seconds=60)
    eventually(lambda: "v2" in command("dataset", "commit").out or "renamed" in command("dataset", "diff", "1").out, 30)
    assert_versions_can_be_looked_at(command, tmp_path, folder)
    eventually(lambda: the_fleet_carried(command) == {"found", "uploaded", "verified", "committed"}, within_seconds=60)

    assert_a_cast_comes_to_the_peer(command, tmp_path, folder / "c.jpg")

    down = command("down", "--json")
    assert sorted(down.json["stopped"]) == sorted(names)
    assert {process["state"] for process in processes(command).values()} == {"stopped"}
    assert "Nothing was running" in command("down").out


def assert_a_cast_comes_to_the_peer(command, tmp_path: Path, file: Path) -> None:
    """The peer that `headwater up` keeps has the file when the publisher ends."""
    published = command("cast", "publish", str(file), "--name", "photo", "--targets", "node-7")
    assert published.code == 0, published.err
    assert (tmp_path / "casts" / file.name).read_bytes() == file.read_bytes()
    report = command("cast", "report", "photo")
    assert report.code == 0
    assert "1 of 1 targets installed it" in report.out
    assert "node-7 is in r1" in command("doctor").out


def the_fleet_carried(command) -> set[str]:
    """The stages that did something in the last minutes."""
    shown = command("fleet", "--json")
    return (
        {stage["stage"] for stage in shown.json["stages"] if stage["five_minutes_records"]} if not shown.code else set()
    )


def assert_versions_can_be_looked_at(command, tmp_path: Path, folder: Path) -> None:
    differences = {one["place"]: one["kind"] for one in command("dataset", "diff", "1", "--json").json}
    assert differences == {"photos/b.jpg": "added", "photos/B.jpg": "added", "photos/c.jpg": "renamed"}
    assert "→ photos/c.jpg  from photos/a.jpg" in command("dataset", "diff", "v1", "latest").out
    listed = command("dataset", "log", "--json").json
    assert [version["message"] for version in listed][-1] == "first"
    assert "+2 ~0 -0" in command("dataset", "log").out
    assert "complete to change" in command("dataset", "show").out

    places = [row["place"] for row in command("dataset", "ls", "--json").lines]
    assert "photos/c.jpg" in places
    assert len(places) == 4
    assert "is odd\\nname.jpg" in command("dataset", "ls").out
    assert command("dataset", "cat", "latest", "photos/c.jpg").out == "a" * 1000
    assert command("dataset", "cat", "latest", "photos/a.jpg").code == 66

    proved = command("dataset", "verify", "--deep", "--with-sources", "--json").json
    assert (proved["right"], proved["objects_read"], proved["source_files"]) == (True, 4, 4)
    assert (proved["collision_count"], proved["collisions"]) == (
        1,
        [{"first": "photos/B.jpg", "other": "photos/b.jpg"}],
    )
    assert "Names that differ" in command("dataset", "verify", "2").out
    assert "is right" in command("dataset", "verify", "1").out
    exported = command("dataset", "export", "latest", "out")
    assert exported.code == 0
    assert "4 files written" in exported.out
    for file in folder.iterdir():
        assert (tmp_path / "out" / "photos" / file.name).read_bytes() == file.read_bytes()

    (folder / "b.jpg").write_bytes(b"B")
    edited = command("dataset", "verify", "--with-sources")
    assert edited.code == 1
    assert "b.jpg: its content differs" in edited.out


def test_a_process_that_cannot_start_is_named_with_its_last_words(folder, command):
    folder.rmdir()

    ended = command("up", "--json")

    assert ended.code == 69
    error = json.loads(ended.err.splitlines()[-1])
    assert error["happened"].startswith("agent-photos ended as soon as it started: ")
    assert "does not exist" in error["happened"]
    assert "agent-photos.log" in error["next"]
    assert "does not exist" in command("logs", "agent-photos").out


@pytest.mark.usefixtures("on_stack")
def test_sync_in_a_dry_run_says_what_it_would_send(command, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.jpg").write_bytes(b"aa")
    (root / "b.tmp").write_bytes(b"b")

    planned = {
        one["path"]: one["action"] for one in command("sync", "root", "--source", "s", "--dry-run", "--json").lines
    }

    assert planned == {"a.jpg": "new", "b.tmp": "excluded"}
    assert "would be sent" in command("sync", "root", "--source", "s", "--dry-run").out


@pytest.mark.usefixtures("on_stack")
def test_sync_once_without_an_uploader_ends_at_once_with_the_fix(command, tmp_path):
    (tmp_path / "root").mkdir()
    command("up", "--servers")

    ended = command("sync", "root", "--source", "s", "--once")

    assert ended.code == 69
    assert "headwater run upload-files" in ended.err


def test_doctor_checks_the_machine(command):
    checks = command("doctor", "--json").json

    assert {"python", "memory", "inotify watches"} <= {check["name"] for check in checks}
    assert all(check["fix"] for check in checks if check["level"] == "fail")


@pytest.mark.usefixtures("on_stack")
def test_doctor_asks_the_s3_server_what_it_can_and_says_the_mode(command, bucket):
    checks = {check["name"]: check for check in command("doctor", "--json").json}
    assert checks["s3 server"]["level"] == "ok"
    assert "conditional create, checksums when_supported" in checks["s3 server"]["found"]

    absent = bucket.replace("?", "x?")
    checks = {check["name"]: check for check in command("doctor", "--json", HEADWATER_S3=absent).json}
    assert checks["s3 server"]["level"] == "fail"
    assert "Create the bucket" in checks["s3 server"]["fix"]


def test_status_without_anything_says_how_to_begin(command):
    shown = command("status")

    assert shown.code == 0
    assert "`headwater up` starts one" in shown.out
    assert "stopped" in shown.out
