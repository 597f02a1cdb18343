"""The checker on forged evidence: each broken promise is found and named, and a run that kept them all is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from chaos.checker import judge
from chaos.evidence import Delta, Evidence, Held, OnDisk, Pause, Shown, Version
from chaos.journal import State, first_out_of_order
from chaos.traffic import Request

from headwater.schemas.records import ChangeKind, DatasetVersion, DeadLetter, FileChange

A, B, C = (bytes([number]) * 32 for number in (10, 11, 12))
OLD, NEW, OTHER = State(hash=A), State(hash=B), State(hash=C)


def key(content: bytes, generation: int = 1) -> str:
    digits = content.hex()
    return f"objects/{digits[:2]}/{digits}.{generation}"


def held(state: State, seq: int, generation: int = 1) -> Held:
    return Held(state, generation if state.hash else None, (1, seq), 5, 0o644)


def delta(path: bytes, state: State | None, seq: int) -> Delta:
    return Delta(path, f"film/{path.decode()}", (1, seq), held(state, seq) if state else None)


def version(number: int, deltas: list[Delta], listing: dict[str, str], **fields: Any) -> Version:
    return Version(
        number=number,
        parent=number - 1 or None,
        commit=f"commit {number}",
        excepted=frozenset(),
        catalog=[replace(one, place=None) for one in deltas],
        manifest=deltas,
        listing=listing,
        **fields,
    )


def announced(number: int) -> DatasetVersion:
    return DatasetVersion(
        dataset="chaos", version=number, parent=None, epoch=1, commit_id=f"commit {number}", manifest_hash=A, added=1,
        changed=0, removed=0, files=1, content_bytes=1, exceptions=0,
    )  # fmt: skip


def change(path: bytes, state: State | None, seq: int) -> FileChange:
    kind = ChangeKind.modified if state else ChangeKind.deleted
    return FileChange(
        source="film", path=path, display="", epoch=1, seq=seq, kind=kind, hash=state.hash if state else None
    )


def put(content: bytes, began: float, part: int | None = None, status: int | None = 200) -> Request:
    query = f"?partNumber={part}&uploadId=u" if part else ""
    return Request("PUT", f"/bucket/{key(content)}{query}", began, began + 0.5, status)


@pytest.fixture
def sound() -> Evidence:
    """Two versions: a.mov is edited, b.mov is added; every account agrees."""
    return Evidence(
        source={b"a.mov": OnDisk(NEW, 5, 0o644), b"b.mov": OnDisk(OTHER, 5, 0o644)},
        journal={b"a.mov": [None, OLD, NEW], b"b.mov": [None, OTHER], b"gone.mov": [None, OLD, None]},
        versions=[
            version(1, [delta(b"a.mov", OLD, 1)], {"film/a.mov": key(A)}),
            version(
                2,
                [delta(b"a.mov", NEW, 2), delta(b"b.mov", OTHER, 3)],
                {"film/a.mov": key(B), "film/b.mov": key(C)},
            ),
        ],
        announced=[announced(1), announced(2)],
        commits=[("commit 2", "2"), ("commit 1", "1")],
        objects={key(A): A, key(B): B, key(C): C},
        verified=frozenset({key(A), key(B), key(C)}),
        changes=[change(b"a.mov", OLD, 1), change(b"a.mov", NEW, 2), change(b"b.mov", OTHER, 3)],
        requests=[put(A, 10), put(B, 20), put(C, 30)],
        shown=[Shown(key(A), None, 11), Shown(key(B), None, 21), Shown(key(C), None, 31)],
    )


def kinds(evidence: Evidence) -> set[str]:
    return {finding.kind for finding in judge(evidence)}


def test_a_sound_run_has_no_findings(sound: Evidence) -> None:
    assert judge(sound) == []


def test_a_file_that_no_version_holds_is_lost(sound: Evidence) -> None:
    assert kinds(replace(sound, source={**sound.source, b"c.mov": OnDisk(OLD, 5, 0o644)})) == {"lost"}


def test_a_file_whose_newest_state_is_not_in_the_newest_version_is_lost(sound: Evidence) -> None:
    assert kinds(replace(sound, source={**sound.source, b"a.mov": OnDisk(OTHER, 5, 0o644)})) == {"lost"}


def test_a_file_whose_mode_or_time_is_another_is_lost(sound: Evidence) -> None:
    assert kinds(replace(sound, source={**sound.source, b"a.mov": OnDisk(NEW, 6, 0o644)})) == {"lost"}
    assert kinds(replace(sound, source={**sound.source, b"a.mov": OnDisk(NEW, 5, 0o600)})) == {"lost"}


def test_a_named_exception_is_not_lost(sound: Evidence) -> None:
    last = replace(sound.versions[1], excepted=frozenset({b"c.mov"}))
    source = {**sound.source, b"c.mov": OnDisk(OLD, 5, 0o644)}
    assert judge(replace(sound, source=source, versions=[sound.versions[0], last])) == []


def test_a_file_that_is_gone_and_still_in_the_newest_version_is_foreign(sound: Evidence) -> None:
    assert kinds(replace(sound, source={b"a.mov": sound.source[b"a.mov"]})) == {"foreign"}


def test_a_path_that_never_was_is_foreign_in_any_version(sound: Evidence) -> None:
    first = version(1, [delta(b"a.mov", OLD, 1), delta(b"x.mov", OLD, 4)], {"film/a.mov": key(A), "film/x.mov": key(A)})
    gone = [*sound.versions[1].manifest, delta(b"x.mov", None, 5)]
    last = version(2, gone, dict(sound.versions[1].listing))
    told = [*sound.changes, change(b"x.mov", OLD, 4), change(b"x.mov", None, 5)]
    assert kinds(replace(sound, versions=[first, last], changes=told)) == {"foreign"}


def test_a_path_that_only_lakefs_has_is_foreign(sound: Evidence) -> None:
    last = replace(sound.versions[1], listing={**sound.versions[1].listing, "film/x.mov": key(A)})
    assert kinds(replace(sound, versions=[sound.versions[0], last])) == {"foreign"}


def test_a_path_that_lakefs_lacks_is_lost(sound: Evidence) -> None:
    last = replace(sound.versions[1], listing={"film/a.mov": key(B)})
    assert kinds(replace(sound, versions=[sound.versions[0], last])) == {"lost"}


def test_bytes_that_the_path_never_had_are_a_mix(sound: Evidence) -> None:
    first = version(1, [delta(b"a.mov", OTHER, 1)], {"film/a.mov": key(C)})
    told = [change(b"a.mov", OTHER, 1), *sound.changes[1:]]
    assert kinds(replace(sound, versions=[first, sound.versions[1]], changes=told)) == {"mixed"}


def test_an_object_whose_bytes_are_not_its_name_is_a_mix(sound: Evidence) -> None:
    assert kinds(replace(sound, objects={**sound.objects, key(A): C})) == {"mixed"}


def test_an_object_that_is_not_in_s3_is_lost(sound: Evidence) -> None:
    assert kinds(replace(sound, objects={key(B): B, key(C): C})) == {"lost"}


def test_an_older_state_after_a_newer_one_is_found_without_any_clock(sound: Evidence) -> None:
    back = version(3, [delta(b"a.mov", OLD, 9)], {"film/a.mov": key(A), "film/b.mov": key(C)})
    evidence = replace(
        sound,
        source={**sound.source, b"a.mov": OnDisk(OLD, 5, 0o644)},
        versions=[*sound.versions, back],
        announced=[*sound.announced, announced(3)],
        commits=[("commit 3", "3"), *sound.commits],
        changes=[*sound.changes, change(b"a.mov", OLD, 9)],
    )
    assert kinds(evidence) == {"older"}
    reverted = {**sound.journal, b"a.mov": [None, OLD, NEW, OLD]}
    assert judge(replace(evidence, journal=reverted)) == []


def test_a_clock_that_goes_back_is_older(sound: Evidence) -> None:
    swapped = [
        version(1, [delta(b"a.mov", OLD, 2)], {"film/a.mov": key(A)}),
        version(2, [delta(b"a.mov", NEW, 1), delta(b"b.mov", OTHER, 3)], {"film/a.mov": key(B), "film/b.mov": key(C)}),
    ]
    told = [change(b"a.mov", NEW, 1), change(b"a.mov", OLD, 2), sound.changes[2]]
    assert kinds(replace(sound, versions=swapped, changes=told)) == {"older"}


@pytest.mark.parametrize(
    "forged",
    [
        {"announced": [announced(1), announced(2), announced(2)]},
        {"announced": [announced(1)]},
        {"commits": [("commit 2", "2"), ("commit 1b", "1"), ("commit 1", "1")]},
        {"commits": [("commit 2", "2")]},
    ],
    ids=["announced twice", "never announced", "committed twice", "not on main"],
)
def test_a_version_that_log_and_lakefs_do_not_have_exactly_once_is_a_duplicate(sound: Evidence, forged: Any) -> None:
    assert kinds(replace(sound, **forged)) == {"duplicate_version"}


def test_a_version_that_changes_nothing_is_a_duplicate(sound: Evidence) -> None:
    again = version(3, [], dict(sound.versions[1].listing))
    evidence = replace(
        sound,
        versions=[*sound.versions, again],
        announced=[*sound.announced, announced(3)],
        commits=[("commit 3", "3"), *sound.commits],
    )
    assert kinds(evidence) == {"duplicate_version"}


def test_a_number_that_is_missing_is_found(sound: Evidence) -> None:
    assert "duplicate_version" in kinds(
        replace(sound, versions=[sound.versions[0], replace(sound.versions[1], number=3)])
    )


def test_a_manifest_that_is_not_the_catalogs_delta_is_a_disagreement(sound: Evidence) -> None:
    other = replace(sound.versions[0], manifest=[delta(b"a.mov", OLD, 7)])
    assert kinds(replace(sound, versions=[other, sound.versions[1]])) == {"disagreement"}


def test_two_paths_at_one_place_are_a_disagreement(sound: Evidence) -> None:
    squeezed = [replace(one, place="film/a.mov") for one in sound.versions[1].manifest]
    last = replace(sound.versions[1], manifest=squeezed)
    assert "disagreement" in kinds(replace(sound, versions=[sound.versions[0], last]))


def test_a_version_that_says_other_than_the_log_is_a_disagreement(sound: Evidence) -> None:
    assert kinds(replace(sound, changes=[change(b"a.mov", OTHER, 1), *sound.changes[1:]])) == {"disagreement"}


def test_a_clock_that_two_paths_share_is_a_disagreement(sound: Evidence) -> None:
    assert kinds(replace(sound, changes=[*sound.changes, change(b"gone.mov", OLD, 3)])) == {"disagreement"}


def test_an_object_that_is_sent_after_the_catalog_showed_it_is_resent(sound: Evidence) -> None:
    assert kinds(replace(sound, requests=[*sound.requests, put(A, 12, status=412)])) == {"resent_part"}


def test_a_part_that_is_sent_after_the_catalog_showed_it_is_resent(sound: Evidence) -> None:
    shown = [*sound.shown, Shown(key(A), 3, 41)]
    assert kinds(replace(sound, requests=[put(A, 40, 3), put(A, 42, 3)], shown=shown)) == {"resent_part"}
    assert judge(replace(sound, requests=[put(A, 40, 3), put(A, 40.9, 3)], shown=shown)) == []


def test_a_part_that_the_catalog_no_longer_shows_may_be_sent_again(sound: Evidence) -> None:
    shown = [Shown(key(A), 3, 41), Shown(key(A), 3, 43, finished=False)]
    assert judge(replace(sound, requests=[put(A, 40, 3), put(A, 44, 3)], shown=shown)) == []


def test_a_part_that_a_stopped_uploader_had_in_hand_may_arrive_late_and_no_other(sound: Evidence) -> None:
    shown = [Shown(key(A), 3, 41)]
    late = replace(sound, requests=[put(A, 40, 3), put(A, 50.3, 3)], shown=shown)
    assert kinds(late) == {"resent_part"}
    assert kinds(replace(late, pauses=[Pause("upload-parts.2", 39, 50)])) == set()
    assert kinds(replace(late, pauses=[Pause("upload-parts", 39, 48)])) == {"resent_part"}, "it had time to hear"
    assert kinds(replace(late, pauses=[Pause("upload-parts", 42, 50)])) == {"resent_part"}, "it could have looked"
    assert kinds(replace(late, pauses=[Pause("verify-large", 39, 50)])) == {"resent_part"}, "it sends nothing"


def test_a_part_that_is_sent_after_list_parts_showed_it_is_resent(sound: Evidence) -> None:
    listing = Request("GET", f"/bucket/{key(A)}?uploadId=u", 41, 41.2, 200)
    assert kinds(replace(sound, requests=[put(A, 40, 3), listing, put(A, 42, 3)], shown=[])) == {"resent_part"}
    assert judge(replace(sound, requests=[put(A, 40, 3), put(A, 42, 3)], shown=[])) == []


def test_a_dead_letter_is_found(sound: Evidence) -> None:
    dead = DeadLetter(topic="t", partition=0, offset=1, group="g", error="E", message="m", stack="")
    assert kinds(replace(sound, dead=[dead])) == {"buried"}


def test_states_may_come_back_only_as_often_as_they_did() -> None:
    history = [None, OLD, NEW, OLD]
    assert first_out_of_order(history, [None, OLD, OLD, NEW, OLD]) is None
    assert first_out_of_order(history, [OLD, NEW, OLD, NEW]) == 3
    assert first_out_of_order(history, [NEW, None]) == 1
