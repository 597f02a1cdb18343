"""How we speak to one S3 server: chosen from what it answered to the probe, once, when a process starts.

Servers of other makers differ where it matters: some take a checksum and never look at it, some refuse a request that
carries one, some overwrite what If-None-Match protects. What each answer changes is said here, in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headwater.rules.errors import Refused


@dataclass(frozen=True, slots=True)
class Answers:
    """What the server did with one tiny object for each question."""

    sha256_is_checked: bool
    """A right x-amz-checksum-sha256 was taken and a wrong one refused."""
    sha256_is_kept: bool
    """ChecksumMode gives it back."""
    md5_is_checked: bool
    """A wrong Content-MD5 was refused."""
    signed_body_is_checked: bool
    """Other bytes than the signature names were refused."""
    create_is_conditional: bool
    """If-None-Match: * did not overwrite an object."""
    etags_are_checked: bool
    """Complete with a part's wrong ETag was refused."""
    chunks_are_decoded: bool
    """A body in aws-chunked framing was stored without the framing."""
    keys_of_1024_bytes: bool
    control_characters_in_keys: bool


class Checksums(StrEnum):
    """When a checksum goes beside the signature; the words are those of the AWS SDKs."""

    when_supported = "when_supported"
    """With every whole object: the server compares it, and keeps it for audits."""
    when_required = "when_required"
    """Never: the server would refuse or ignore it. The signature may still cover the bytes."""


@dataclass(frozen=True, slots=True)
class Mode:
    """The default is what AWS S3 and versitygw can."""

    conditional_create: bool = True
    checksums: Checksums = Checksums.when_supported

    def __str__(self) -> str:
        create = "conditional" if self.conditional_create else "unconditional"
        return f"{create} create, checksums {self.checksums}, content-addressed keys"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer in words. ``means`` is what it changes for us; empty where the server does what we want of it."""

    capability: str
    has: bool
    means: str = ""


def choose(answers: Answers, place: str) -> Mode:
    """The mode that keeps the promise: what was verified stays as it was verified.

    Bytes that arrive wrong are found by verify under any mode. But a late request of a member that was stopped may
    still land after that; it is harmless if the server does not overwrite, or if it refuses other bytes than were sent.

    Raises Refused where the server does neither.
    """
    if not answers.create_is_conditional and not answers.signed_body_is_checked:
        raise Refused(
            "the server overwrites objects in spite of If-None-Match, and stores other bytes than were signed: an "
            "object that was verified could be replaced by damaged bytes later, unseen.",
            asked=f"Choose how to write to {place}.",
            kept="Nothing was written but the probe's own objects, which are gone again.",
            advice="Use a server (or switch off the proxy before it) that does at least one of the two; `headwater "
            "doctor` shows all answers.",
        )
    checked = answers.sha256_is_checked
    return Mode(
        conditional_create=answers.create_is_conditional,
        checksums=Checksums.when_supported if checked else Checksums.when_required,
    )


def findings(answers: Answers) -> list[Finding]:
    """Every answer, and what follows where it is no."""
    meaning = {
        "conditional create": "the same bytes may be written over an object; the signature keeps others out",
        "signed body checked": "damaged bytes are taken in and found by verify: keep verify.sample_percent at 100",
        "SHA-256 checked": "none is sent (checksums when_required)",
        "SHA-256 kept": "an audit without reading the bytes back is not possible",
        "Content-MD5 checked": "none is sent in any mode",
        "ETags checked at Complete": "a large object of wrong parts is found by verify only",
        "aws-chunked decoded": "bodies are never sent in chunks",
        "keys of 1,024 bytes": "ours have fewer than 100, all ASCII; the true path is in the manifest",
        "control characters in keys": "ours have none; the true path is in the manifest",
    }
    found = {
        "conditional create": answers.create_is_conditional,
        "signed body checked": answers.signed_body_is_checked,
        "SHA-256 checked": answers.sha256_is_checked,
        "SHA-256 kept": answers.sha256_is_kept,
        "Content-MD5 checked": answers.md5_is_checked,
        "ETags checked at Complete": answers.etags_are_checked,
        "aws-chunked decoded": answers.chunks_are_decoded,
        "keys of 1,024 bytes": answers.keys_of_1024_bytes,
        "control characters in keys": answers.control_characters_in_keys,
    }
    return [Finding(name, has, "" if has else meaning[name]) for name, has in found.items()]
