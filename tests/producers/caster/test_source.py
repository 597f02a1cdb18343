"""What can be cast, and whether it is still the same."""

import ctypes
import os
import socket
import threading
from pathlib import Path

import pytest

from headwater.producers.caster.source import Source
from headwater.rules.errors import BadSettings, NotFound, Refused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(b"x" * 1000)
    return path


def test_what_does_not_change_has_no_change(path):
    with Source(path) as source:
        assert path.read_bytes()  # which moves atime at most
        assert source.change() == ""


def test_a_write_is_told_though_the_times_are_set_back(path):
    before = path.stat()
    with Source(path) as source:
        with path.open("r+b") as file:
            file.write(b"y")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_mtime_ns == before.st_mtime_ns
        assert "set its times back" in source.change()


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"y")


def write_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"y")


def replace_it(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def truncate(path: Path) -> None:
    os.truncate(path, 10)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (append, "grew from 1,000 to 1,001 bytes"),
        (write_in_place, "was written to"),
        (replace_it, "links"),  # of the file that was replaced: its name is gone
        (truncate, "shrank from 1,000 to 10 bytes"),
        (Path.unlink, "links"),
    ],
)
def test_a_change_is_told(path, change, told):
    with Source(path) as source:
        change(path)
        assert told in source.change()


def test_who_may_write_is_noticed_though_nothing_changes(path):
    with Source(path) as source:
        assert not source.is_open_for_writing()
        with path.open("r+b"):
            assert source.is_open_for_writing()
            assert source.change() == ""


def test_a_link_that_leads_elsewhere_is_told(tmp_path, path):
    link, other = tmp_path / "latest", tmp_path / "other.bin"
    other.write_bytes(path.read_bytes())
    link.symlink_to(path)
    with Source(link) as source:
        link.unlink()
        link.symlink_to(other)
        assert source.change() == "another file has taken its place"
        link.unlink()
        assert source.change() == "its path leads nowhere now"


def test_what_is_missing_is_not_found(tmp_path, path):
    for missing in (tmp_path / "no.bin", path / "below"):
        with pytest.raises(NotFound, match="no such file"):
            Source(missing)


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a device", "a socket or a device"])
def test_only_files_can_be_cast(tmp_path, kind):
    wrong = tmp_path / "wrong"
    if kind == "a pipe":
        os.mkfifo(wrong)
    elif kind == "a device":
        wrong = Path("/dev/null")
    elif kind == "a socket or a device":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(wrong))
    else:
        wrong.mkdir()
    with pytest.raises(BadSettings, match=f"it is {kind}, and a cast sends one file"):
        Source(wrong)


def test_a_file_that_is_being_written_is_refused(path):
    with path.open("ab"), pytest.raises(Refused, match="open for writing"):
        Source(path)


def test_a_file_that_may_not_be_read_is_refused(path):
    path.chmod(0)
    refusals = []

    def try_it() -> None:
        give_up_roots_rights()
        try:
            Source(path)
        except Refused as refused:
            refusals.append(refused.happened)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert refusals == ["it cannot be opened: Permission denied."]


def give_up_roots_rights() -> None:
    """This thread is bound by file modes from now on: capabilities(7) belong to threads."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capset(header, sets) == 0


def test_descriptors_are_closed(path):
    before = len(os.listdir("/proc/self/fd"))
    with Source(path) as source:
        os.close(source.reopened())
        source.change()
    with path.open("ab"), pytest.raises(Refused):
        Source(path)
    assert len(os.listdir("/proc/self/fd")) == before
