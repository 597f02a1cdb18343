"""The error tree: what can go wrong, and whether trying again can help.

    HeadwaterError
    ├── Permanent            trying again changes nothing
    │   ├── BadSettings      a setting is missing or wrong
    │   ├── BadUrl           an address that a tenant gave is malformed, or leads where we do not go
    │   ├── BadRecord        a record does not decode or contradicts itself (goes to dead.letters)
    │   │   └── NewerRecord  a newer release wrote it: groups wait for the upgrade of their process
    │   ├── TopicMismatch    a topic is missing or differs from the catalogue
    │   ├── Refused          the other system understood and said no (credentials, permissions, quota)
    │   │   └── NoSpace      the disk, or the quota on it, has no room: ``facts`` say needed and free bytes
    │   ├── Fenced           a newer epoch owns what this process held: it must stop writing
    │   ├── Torn             the bytes of a file no longer match the event that described them
    │   ├── Corrupt          stored bytes differ from their hash
    │   └── NotFound         what was asked for does not exist
    └── Transient            waiting and trying again may help
        ├── Unavailable      a system does not answer (broker, database, S3, lakeFS)
        └── Unclear          the request may or may not have taken effect: look before repeating it

Every error carries four sentences for the person who reads it: what was asked, what happened, what was kept,
and what to do next. ``facts`` holds the values that a program would want.
"""

from __future__ import annotations


class HeadwaterError(Exception):
    """Base of all our errors. ``exit_code`` is what the command line ends with."""

    exit_code = 1

    def __init__(self, happened: str, *, asked: str = "", kept: str = "", advice: str = "", **facts: object) -> None:
        super().__init__(happened)
        self.happened = happened
        self.asked = asked
        self.kept = kept
        self.advice = advice
        self.facts = facts

    def __str__(self) -> str:
        return " ".join(part for part in (self.asked, self.happened, self.kept, self.advice) if part)


class Permanent(HeadwaterError):
    """Trying the same thing again changes nothing."""


class Transient(HeadwaterError):
    """Waiting and trying again may help."""

    exit_code = 75  # EX_TEMPFAIL


class BadSettings(Permanent):
    exit_code = 78  # EX_CONFIG


class BadUrl(Permanent):
    exit_code = 65  # EX_DATAERR


class BadRecord(Permanent):
    exit_code = 65  # EX_DATAERR


class NewerRecord(BadRecord):
    pass


class TopicMismatch(Permanent):
    exit_code = 78


class Refused(Permanent):
    exit_code = 77  # EX_NOPERM


class NoSpace(Refused):
    exit_code = 73  # EX_CANTCREAT


class Fenced(Permanent):
    exit_code = 4


class Torn(Permanent):
    exit_code = 65


class Corrupt(Permanent):
    exit_code = 5


class NotFound(Permanent):
    exit_code = 66  # EX_NOINPUT


class Unavailable(Transient):
    exit_code = 69  # EX_UNAVAILABLE


class Unclear(Transient):
    pass
