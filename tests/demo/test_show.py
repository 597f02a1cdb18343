"""The whole demo, scaled down, on the real stack: it must come to its end, and notice when the end is wrong."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("av")
pytest.importorskip("PIL")

from rich.console import Console

from headwater.demo.jobs import probed
from headwater.demo.show import show
from headwater.demo.tree import MIB, TreeSize
from headwater.demo.trees import Tree, require_equal, tree_of
from headwater.demo.view import Screen
from headwater.rules.errors import BadSettings, Corrupt, NotFound, Refused
from headwater.stack.addresses import Addresses
from headwater.stack.processes import alive, names

FOUND = TreeSize(photographs=30, clips=0, largest_width=200)
ARRIVALS = TreeSize(photographs=5, clips=2, clip_bytes=66 * MIB, clip_height=1080, largest_width=200)


@pytest.fixture
def own_servers(
    stack: Addresses, catalog_dsn: str, bucket: str, kafka_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo on the session's servers, with a catalog, a bucket and topics of its own."""
    for variable, value in stack.environment().items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("HEADWATER_POSTGRES", catalog_dsn)
    monkeypatch.setenv("HEADWATER_S3", bucket)
    monkeypatch.setenv("HEADWATER_KAFKA__PREFIX", kafka_prefix)


@pytest.mark.timeout(900)  # a minute and a half on two quiet cores; all of six acts is much where others work too
@pytest.mark.usefixtures("own_servers")
def test_the_demo_plays_to_its_end_and_leaves_no_process(tmp_path: Path) -> None:
    out = io.StringIO()
    show(found=FOUND, arrivals=ARRIVALS, where=tmp_path, screen=Screen(Console(file=out, width=120, highlight=False)))
    text = out.getvalue()
    assert "nothing is lost" in text
    assert "nothing is sent twice" in text
    assert "renamed, " in text, "the diff between the two versions is shown"
    assert "v2 is right" in text
    assert "equals the folder's" in text
    state = tmp_path / ".headwater"
    assert "kill -9" in text.partition("One file to eight hosts")[2]
    assert "are right by their hash, and stay" in text, "the one that was killed goes on from what it had"
    assert "all eight have it" in text
    assert "8 of 8 targets installed it" in text
    assert len(list((state / "demo" / "peers").glob("*/take *"))) == 8
    videos = text.partition("Videos from prompts")[2]
    assert "kill -9" in videos
    assert "resumed at step" in videos
    assert "a webhook came for each of the 3, signed" in videos
    assert "8.0 s, 64 frames" in videos
    assert probed(state / "demo" / "videos" / "resumed.mp4") == (8.0, 64)
    assert not [name for name in names(state) if alive(name, state)]
    (exported,) = (state / "demo" / "exported").iterdir()
    assert tree_of(exported) == tree_of(state / "demo" / "media")


def test_a_folder_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="not a folder"):
        show(tmp_path / "missing", where=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_around_the_demos_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="another folder"):
        show(tmp_path, where=tmp_path)
    assert not list(tmp_path.iterdir())


def test_somebody_elses_settings_stop_the_demo(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('site = "lab"\n')
    with pytest.raises(Refused, match="not a demo's"):
        show(where=tmp_path)
    assert (tmp_path / "headwater.toml").read_text() == 'site = "lab"\n'


def test_an_export_that_differs_is_called_corrupt_and_names_the_file() -> None:
    expected: Tree = {b"a": "1", b"b": "2"}
    with pytest.raises(Corrupt, match=r"1 have other bytes, among them b\."):
        require_equal(expected, {b"a": "1", b"b": "3"}, asked="Version 2 was compared.", advice="")
    require_equal(expected, dict(expected), asked="Version 2 was compared.", advice="")
