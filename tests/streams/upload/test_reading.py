from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.connectors.catalog.files import SourceRow
from headwater.rules.errors import BadRecord, Permanent, Torn, Unavailable
from headwater.rules.identity import content_hash
from headwater.streams.upload.reading import Away, Roots, read_exactly
from headwater.streams.upload.records import check_path


def rows(root: Path) -> dict[str, SourceRow]:
    return {"nas1": SourceRow("nas1", os.fsencode(root), "films", 1)}


def test_a_range_is_read_if_its_hash_is_the_expected_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_bytes(b"0123456789")
    with Roots({}, rows(tmp_path)) as roots:
        roots.open_all({"nas1"})
        with roots.file("nas1", b"folder/one") as descriptor:
            assert read_exactly(descriptor, 2, 3, expected=content_hash(b"234")) == b"234"
            assert read_exactly(descriptor, 2, 3, expected=content_hash(b"235")) is None
            assert read_exactly(descriptor, 8, 3, expected=content_hash(b"89")) is None, "the file ends before"
            assert read_exactly(descriptor, 0, 0, expected=content_hash(b"")) == b""


def test_a_root_that_is_not_there_is_an_outage_not_a_change_of_every_file(tmp_path: Path) -> None:
    with Roots({"nas1": tmp_path / "unmounted"}, rows(tmp_path)) as roots:
        roots.open_all({"nas1"})
        with pytest.raises(Away, match=r"unmounted.*upload\.roots\.nas1"), roots.file("nas1", b"one"):
            pass


def test_a_file_that_may_not_be_read_is_permanent_and_not_torn(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"light")
    (tmp_path / "one").chmod(0)
    user = os.geteuid()
    with Roots({}, rows(tmp_path)) as roots:
        roots.open_all({"nas1"})
        try:
            if user == 0:
                tmp_path.chmod(0o755)
                os.seteuid(65534)
            with pytest.raises(Permanent, match="may not be read by user") as caught, roots.file("nas1", b"one"):
                pass
        finally:
            os.seteuid(user)
    assert not isinstance(caught.value, Torn)


def test_a_disk_that_fails_is_an_outage(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # reading a folder fails, whatever the disk
    with pytest.raises(Unavailable, match="disk or the mount"):
        read_exactly(descriptor, 0, 1, expected=content_hash(b"x"))
    os.close(descriptor)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "one").write_bytes(b"light")
    before = len(os.listdir("/proc/self/fd"))
    with Roots({}, rows(tmp_path)) as roots:
        roots.open_all({"nas1"})
        for path in (b"a/b/one", b"a/b/two", b"a/b", b"a/one/two"):
            try:
                with roots.file("nas1", path):
                    pass
            except Torn:
                continue
    assert len(os.listdir("/proc/self/fd")) == before


@given(st.lists(st.binary(min_size=1, max_size=5).filter(lambda name: b"/" not in name and b"\x00" not in name)))
def test_a_path_is_good_unless_a_segment_leads_elsewhere(segments: list[bytes]) -> None:
    leads_elsewhere = not segments or any(name in (b".", b"..") for name in segments)
    try:
        check_path(b"/".join(segments))
    except BadRecord:
        assert leads_elsewhere
    else:
        assert not leads_elsewhere
