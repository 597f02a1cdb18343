"""The lakeFS client on a real lakeFS."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from headwater.connectors.lakefs.client import Entry, LakeFS
from headwater.connectors.lakefs.config import LakeFSConfig
from headwater.connectors.s3.config import S3Config
from headwater.rules.errors import BadSettings, Corrupt, NotFound, Refused, Unavailable
from headwater.stack.addresses import Addresses
from headwater.stack.lakefs import DATABASE
from headwater.stack.postgres import database_address


def entry(path: str, content: str = "ab", **metadata: str) -> Entry:
    return Entry(path, f"s3://elsewhere/objects/{content}.1", content, 5, 77, metadata)


@pytest.fixture
def lakefs(lakefs_url: str) -> LakeFS:
    return LakeFS(LakeFSConfig.from_url(lakefs_url))


@pytest.fixture
def repository(lakefs: LakeFS, bucket: str) -> str:
    name = f"r{uuid4().hex[:12]}"
    lakefs.ensure_repository(name, f"s3://{S3Config.from_url(bucket).bucket}/lakefs/{name}")
    return name


def test_a_repository_is_made_once(lakefs: LakeFS, repository: str) -> None:
    first = lakefs.first_commit(repository)

    lakefs.ensure_repository(repository, "s3://another/namespace")

    assert lakefs.first_commit(repository) == lakefs.head_of(repository, "main").id == first


def test_what_is_linked_is_listed_and_compared(lakefs: LakeFS, repository: str) -> None:
    first = lakefs.first_commit(repository)
    linked = [entry(f"films/{number:04}", hash="cd") for number in range(1500)]
    odd = [entry("films/new\nline"), entry("films/" + "n" * 1018), entry("films/\N{FILM FRAMES}")]
    lakefs.create_branch(repository, "work", first)

    assert lakefs.link(repository, "work", [*linked, *odd], at_once=16) == 1503
    commit = lakefs.commit(repository, "work", "a message", {"version": "1"})

    assert (commit.message, commit.metadata, commit.parents) == ("a message", {"version": "1"}, (first,))
    assert lakefs.head_of(repository, "work") == commit
    assert list(lakefs.list_objects(repository, commit.id)) == sorted(linked + odd, key=lambda e: e.path.encode())
    found = list(lakefs.diff(repository, first, commit.id))
    assert len(found) == 1503
    assert {(one.kind, one.checksum, one.size) for one in found} == {("added", "ab", 5)}


def test_changes_of_metadata_alone_are_differences(lakefs: LakeFS, repository: str) -> None:
    lakefs.create_branch(repository, "work", lakefs.first_commit(repository))
    lakefs.link(repository, "work", [entry("a", mode="644"), entry("b")], at_once=2)
    before = lakefs.commit(repository, "work", "1", {})
    lakefs.link(repository, "work", [entry("a", mode="755")], at_once=2)
    after = lakefs.commit(repository, "work", "2", {})

    assert [(one.path, one.kind, one.metadata) for one in lakefs.diff(repository, before.id, after.id)] == [
        ("a", "changed", {"mode": "755"})
    ]


def test_unlinking_leaves_names_that_begin_alike(lakefs: LakeFS, repository: str) -> None:
    lakefs.create_branch(repository, "work", lakefs.first_commit(repository))
    lakefs.link(repository, "work", [entry("img1"), entry("img1.bak"), entry("img10/a"), entry("img1/b")], at_once=2)
    lakefs.commit(repository, "work", "1", {})

    lakefs.unlink(repository, "work", ["img1", "never there"])
    after = lakefs.commit(repository, "work", "2", {})

    assert [one.path for one in lakefs.list_objects(repository, after.id)] == ["img1.bak", "img1/b", "img10/a"]
    assert [one.path for one in lakefs.list_objects(repository, after.id, prefix="img1/")] == ["img1/b"]


def test_what_the_database_could_not_remove_is_tried_again(lakefs: LakeFS, repository: str, stack: Addresses) -> None:
    """lakeFS answers such a request with 200 and names the paths: an ended committer was the price once."""
    name = f"doomed{uuid4().hex}"
    lakefs.create_branch(repository, "work", lakefs.first_commit(repository))
    lakefs.link(repository, "work", [entry(name)], at_once=1)
    lakefs.commit(repository, "work", "1", {})

    with psycopg.connect(database_address(stack.postgres, DATABASE), autocommit=True) as database:
        database.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$"
        )
        database.execute(
            f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON kv FOR EACH ROW "
            f"WHEN (position('{name}'::bytea IN NEW.key) > 0) EXECUTE FUNCTION {name}()"
        )
        try:
            with pytest.raises(Unavailable, match=f"kept 1 of them, first {name}"):
                lakefs.unlink(repository, "work", [name])
        finally:
            database.execute(f"DROP FUNCTION {name} CASCADE")

    lakefs.unlink(repository, "work", [name])
    after = lakefs.commit(repository, "work", "2", {})
    assert list(lakefs.list_objects(repository, after.id)) == []


def test_a_commit_of_nothing_is_a_commit(lakefs: LakeFS, repository: str) -> None:
    first = lakefs.first_commit(repository)
    lakefs.create_branch(repository, "work", first)

    commit = lakefs.commit(repository, "work", "nothing but a manifest", {"version": "2"})

    assert commit.parents == (first,)
    assert list(lakefs.diff(repository, first, commit.id)) == []


def test_main_moves_to_a_commit_whose_branch_is_gone(lakefs: LakeFS, repository: str) -> None:
    lakefs.create_branch(repository, "work", lakefs.first_commit(repository))
    lakefs.link(repository, "work", [entry("a")], at_once=1)
    commit = lakefs.commit(repository, "work", "1", {})

    lakefs.delete_branch(repository, "work")
    lakefs.delete_branch(repository, "work")
    lakefs.move_branch(repository, "main", commit.id)

    assert lakefs.branches(repository, "") == ["main"]
    assert [one.path for one in lakefs.list_objects(repository, "main")] == ["a"]


def test_a_tag_is_made_once_and_never_moved(lakefs: LakeFS, repository: str) -> None:
    first = lakefs.first_commit(repository)
    lakefs.create_branch(repository, "work", first)
    other = lakefs.commit(repository, "work", "1", {})
    lakefs.tag(repository, "v1", first)
    lakefs.tag(repository, "v1", first)

    with pytest.raises(Refused, match=f"names {first}, not {other.id}") as refused:
        lakefs.tag(repository, "v1", other.id)

    assert "lakectl tag delete" in refused.value.advice


def test_an_answer_that_differs_from_the_request_is_corrupt(
    lakefs: LakeFS, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakefs.create_branch(repository, "work", lakefs.first_commit(repository))
    original = lakefs._call

    def altered(*arguments: object, **named: object) -> object:
        answer = original(*arguments, **named)  # type: ignore[arg-type, var-annotated]
        answer.physical_address += "x"
        return answer

    monkeypatch.setattr(lakefs, "_call", altered)

    with pytest.raises(Corrupt, match="lakeFS recorded"):
        lakefs.link(repository, "work", [entry("a")], at_once=1)


def test_errors_say_what_was_asked_and_what_to_do(lakefs: LakeFS, repository: str, lakefs_url: str) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        lakefs.head_of(repository, "nowhere")
    with pytest.raises(Refused, match="HEADWATER_LAKEFS"):
        LakeFS(LakeFSConfig(LakeFSConfig.from_url(lakefs_url).endpoint, "nobody", "wrong")).head_of(repository, "main")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 does not answer"):
        LakeFS(LakeFSConfig("http://127.0.0.1:9", "a", "b")).head_of(repository, "main")


def test_the_address_is_read_and_its_secret_never_shown() -> None:
    config = LakeFSConfig.from_url("https://key:hid%2Fden@[::1]:8000")

    assert config == LakeFSConfig("https://[::1]:8000", "key", "hid/den")
    assert "den" not in repr(config)


@pytest.mark.parametrize("url", ["key:secret@host", "http://host:8000", "http://key@host", "s3://key:secret@host"])
def test_an_address_that_lacks_something_says_what_it_should_be(url: str) -> None:
    with pytest.raises(BadSettings, match="HEADWATER_LAKEFS") as bad:
        LakeFSConfig.from_url(url)

    assert "secret@" not in str(bad.value)
