"""The verdict on a run, from evidence alone. It knows the promises and none of the code that is to keep them.

lost              a file of the source is not in the newest version as it is, and no exception names it
foreign           a version holds a path that the source never had, or the newest one a path that is gone
mixed             a version holds bytes that its path never had, or an object's bytes are not those that its key names
older             a version holds a state older than the version before it did
duplicate_version a version was numbered, committed or announced twice, or differs between catalog, log and lakeFS
disagreement      catalog, manifest, lakeFS and log do not say the same of a version or a clock
resent_part       S3 was sent an object or a part again after the catalog or ListParts showed it finished
buried            a record was given up, although nothing was wrong with it
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.evidence import Delta, Evidence, Held, Pause, Version
from chaos.journal import Path, State, first_out_of_order, were_never
from chaos.traffic import Request
from headwater.rules.identity import object_key
from headwater.schemas.records import ChangeKind

KINDS = (
    "lost",
    "foreign",
    "mixed",
    "older",
    "duplicate_version",
    "disagreement",
    "resent_part",
    "buried",
)

Contents = Mapping[Path, Held]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One broken promise. The subject is a path, a key or a version; the same fault found again is equal."""

    kind: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.detail}"


def judge(evidence: Evidence) -> list[Finding]:
    """Every broken promise, in the order of ``KINDS``."""
    contents = contents_of(evidence.versions)
    found = [
        *_last_version(evidence, contents[-1] if contents else {}),
        *_every_state(evidence, contents),
        *_objects(evidence, contents),
        *_order(evidence, contents),
        *_numbers(evidence),
        *_accounts(evidence, contents),
        *_clocks(evidence),
        *_sent_again(evidence),
        *(Finding("buried", f"{d.topic}/{d.partition}/{d.offset}", f"{d.error}: {d.message}") for d in evidence.dead),
    ]
    return sorted(set(found), key=lambda one: (KINDS.index(one.kind), one))


def contents_of(versions: Sequence[Version]) -> list[dict[Path, Held]]:
    """What each version holds, by the catalog's deltas applied one after the other."""
    contents: list[dict[Path, Held]] = []
    now: dict[Path, Held] = {}
    for version in versions:
        now = dict(now)
        for delta in version.catalog:
            if delta.held is None:
                now.pop(delta.path, None)
            else:
                now[delta.path] = delta.held
        contents.append(now)
    return contents


def _last_version(evidence: Evidence, holds: Contents) -> Iterator[Finding]:
    excepted = evidence.versions[-1].excepted if evidence.versions else frozenset()
    for path, there in evidence.source.items():
        held = holds.get(path)
        if path in excepted:
            continue
        if held is None:
            yield Finding("lost", repr(path), f"{there.state} is not in the newest version")
        elif held.state != there.state:
            yield Finding("lost", repr(path), f"the newest version holds {held.state}, the source {there.state}")
        elif (held.mtime_ns, held.mode) != (there.mtime_ns, there.mode):
            yield Finding(
                "lost", repr(path), f"mtime, mode {held.mtime_ns}, {held.mode:o} for {there.mtime_ns}, {there.mode:o}"
            )
    for path in holds.keys() - evidence.source.keys() - excepted:
        yield Finding("foreign", repr(path), f"the newest version holds {holds[path].state}, the source nothing")


def _every_state(evidence: Evidence, contents: Sequence[Contents]) -> Iterator[Finding]:
    seen: set[tuple[Path, State]] = set()
    for version, holds in zip(evidence.versions, contents, strict=True):
        for path, held in holds.items():
            if (path, held.state) in seen:
                continue
            seen.add((path, held.state))
            if path not in evidence.journal:
                yield Finding("foreign", repr(path), f"version {version.number} holds it, the source never had it")
            elif were_never(evidence.journal, path, held.state):
                yield Finding("mixed", repr(path), f"version {version.number} holds {held.state}, which it never was")


def _objects(evidence: Evidence, contents: Sequence[Contents]) -> Iterator[Finding]:
    used = {
        object_key(held.state.hash, held.generation)
        for holds in contents
        for held in holds.values()
        if held.state.hash is not None and held.generation is not None
    }
    for key in used | evidence.verified:
        named = key.rpartition("/")[2].partition(".")[0]
        if key not in evidence.objects:
            yield Finding("lost", key, "a version or the catalog needs this object, and S3 does not have it")
        elif evidence.objects[key].hex() != named:
            yield Finding("mixed", key, f"its bytes have the hash {evidence.objects[key].hex()[:16]}…")


def _order(evidence: Evidence, contents: Sequence[Contents]) -> Iterator[Finding]:
    """Twice: by the clocks, and by the journal, which knows nothing of clocks."""
    clocks: dict[Path, tuple[int, int]] = {}
    for version in evidence.versions:
        for delta in version.catalog:
            if delta.clock <= clocks.get(delta.path, (0, 0)):
                yield Finding(
                    "older", repr(delta.path), f"version {version.number}: {delta.clock} after {clocks[delta.path]}"
                )
            clocks[delta.path] = delta.clock
    for path in {path for holds in contents for path in holds} & evidence.journal.keys():
        seen = [holds[path].state if path in holds else None for holds in contents]
        if (number := first_out_of_order(evidence.journal[path], seen)) is not None:
            if seen[number] not in evidence.journal[path]:
                continue  # a mix, and named as one
            again = evidence.versions[number].number
            yield Finding("older", repr(path), f"version {again} holds {seen[number] or 'nothing'} again")


def _numbers(evidence: Evidence) -> Iterator[Finding]:
    numbers = [version.number for version in evidence.versions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Finding("duplicate_version", "catalog", f"versions are numbered {numbers}")
    commits = {version.number: version.commit for version in evidence.versions}
    for commit, times in Counter(commits.values()).items():
        if times > 1:
            yield Finding("duplicate_version", commit, f"{times} versions of the catalog are this commit")
    for version in evidence.versions:
        if not version.catalog:
            yield Finding("duplicate_version", f"version {version.number}", "it changes nothing from its parent")
    announced = [(one.version, one.commit_id) for one in evidence.announced]
    if announced != sorted(commits.items()):
        wrong = sorted(set(announced) ^ set(commits.items())) or [one for one, n in Counter(announced).items() if n > 1]
        yield Finding("duplicate_version", "dataset.versions", f"differs from the catalog, first at {wrong[:3]}")
    on_main = [(int(number), commit) for commit, number in evidence.commits]
    if sorted(on_main) != sorted(commits.items()):
        wrong = sorted(set(on_main) ^ set(commits.items())) or [one for one, n in Counter(on_main).items() if n > 1]
        yield Finding("duplicate_version", "main", f"lakeFS differs from the catalog, first at {wrong[:3]}")


def _accounts(evidence: Evidence, contents: Sequence[Contents]) -> Iterator[Finding]:
    places: dict[Path, str] = {}
    for version, holds in zip(evidence.versions, contents, strict=True):
        subject = f"version {version.number}"
        by_catalog, by_manifest = _keyed(version.catalog), _keyed(version.manifest)
        for path in sorted(by_catalog.keys() | by_manifest.keys()):
            if by_catalog.get(path) != by_manifest.get(path):
                yield Finding("disagreement", subject, f"the manifest's row of {path!r} is not the catalog's")
        places.update({delta.path: delta.place for delta in version.manifest if delta.place is not None})
        meant = {
            places.get(path, f"(no place of {path!r})"): object_key(held.state.hash, held.generation)
            for path, held in holds.items()
            if held.state.hash is not None and held.generation is not None
        }
        for place in sorted(version.listing.keys() - meant.keys()):
            yield Finding("foreign", place, f"lakeFS has it in {subject}, the catalog has not")
        for place in sorted(meant.keys() - version.listing.keys()):
            yield Finding("lost", place, f"the catalog has it in {subject}, lakeFS has not")
        for place in sorted(meant.keys() & version.listing.keys()):
            if meant[place] != version.listing[place]:
                yield Finding("disagreement", place, f"{subject}: lakeFS has {version.listing[place]}")
    for place, times in Counter(places.values()).items():
        if times > 1:
            yield Finding("disagreement", place, f"{times} paths have this place")


def _keyed(deltas: Sequence[Delta]) -> dict[Path, tuple[object, object]]:
    return {delta.path: (delta.clock, delta.held) for delta in deltas}


def _clocks(evidence: Evidence) -> Iterator[Finding]:
    """A clock of the source names one record, and what a version says of a path is what its record said."""
    records: dict[tuple[Path, int, int], State | None] = {}
    paths: dict[tuple[int, int], set[Path]] = defaultdict(set)
    for one in evidence.changes:
        if one.kind is ChangeKind.checkpoint:
            continue
        state = None if one.kind in _WITHOUT_STATE else State(one.hash, one.link_target)
        if records.setdefault((one.path, one.epoch, one.seq), state) != state:
            yield Finding("disagreement", repr(one.path), f"two records with the clock {(one.epoch, one.seq)}")
        paths[one.epoch, one.seq].add(one.path)
        if one.from_path is not None:
            records[one.from_path, one.epoch, one.seq] = None
    for clock, named in paths.items():
        if len(named) > 1:
            yield Finding("disagreement", str(clock), f"the clock of {len(named)} paths: {sorted(named)[:3]}")
    for version in evidence.versions:
        for delta in version.catalog:
            said = records.get((delta.path, *delta.clock), _NOT_SAID)
            if evidence.changes and said != (delta.held.state if delta.held else None):
                yield Finding(
                    "disagreement", repr(delta.path), f"version {version.number}, {delta.clock}: the log has {said}"
                )


_WITHOUT_STATE = (ChangeKind.deleted, ChangeKind.excepted, ChangeKind.cleared)
_NOT_SAID = "no such record"


def _sent_again(evidence: Evidence) -> Iterator[Finding]:
    """A PUT that began while the catalog showed its object or part as finished, or after a ListParts that followed
    the part's own success. A PUT that was under way meanwhile is none, nor one whose success nobody had looked at, nor
    one that was in hand when its uploader was stopped, and that went on with it.
    """
    listings: dict[tuple[str, str], list[Request]] = defaultdict(list)
    done: dict[tuple[str, str | None, int | None], float] = {}
    shown = defaultdict(list)
    for one in sorted(evidence.shown, key=lambda shown: shown.at):
        shown[one.key, one.part].append(one)
    for request in sorted(evidence.requests, key=lambda request: request.began):
        if not request.key.startswith("objects/"):
            continue
        if request.method == "GET" and request.upload_id is not None and request.succeeded:
            listings[request.key, request.upload_id].append(request)
        if request.method != "PUT":
            continue
        before = [one for one in shown[request.key, request.part] if one.at < request.began]
        subject = request.key if request.part is None else f"{request.key} part {request.part}"
        this = (request.key, request.upload_id, request.part)
        if before and before[-1].finished:
            if any(pause.began < before[-1].at and _goes_on(pause, request) for pause in evidence.pauses):
                continue
            late = request.began - before[-1].at
            yield Finding("resent_part", subject, f"sent {late:.3f} s after the catalog showed it finished")
        elif any(
            done.get(this, float("inf")) < listing.began and listing.ended < request.began
            for listing in listings[request.key, request.upload_id or ""]
        ):
            yield Finding("resent_part", subject, "sent again after ListParts showed it finished")
        if request.succeeded:
            done[this] = min(done.get(this, float("inf")), request.ended)


IN_HAND_SECONDS = 1.0
"""How long after its process goes on a request that was about to be sent may begin: hashing and signing come first."""


def _goes_on(pause: Pause, request: Request) -> bool:
    return pause.member.startswith("upload-") and 0 <= request.began - pause.ended <= IN_HAND_SECONDS
