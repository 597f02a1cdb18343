"""The Idempotency-Key header: a structured field's string ("quoted"), or bare, as most clients send it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from blake3 import blake3

from headwater.producers.api.problems import Kind, Problem

HEADER = "Idempotency-Key"
LONGEST = 255
_QUOTED = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(r"[\x21-\x7e]+")


def key_of(header: str | None) -> str | None:
    """The key, the same whether it came quoted or bare; None where there is none. Raises Problem for what is no key."""
    if header is None:
        return None
    text = header.strip()
    if quoted := _QUOTED.fullmatch(text):
        key = re.sub(r'\\(["\\])', r"\1", quoted[1])
    else:
        key = text if _BARE.fullmatch(text) and not text.startswith('"') else ""
    if not 0 < len(key) <= LONGEST:
        detail = f"{HEADER} must be 1 to {LONGEST} printable ASCII characters, in quotes or without."
        raise Problem(Kind.bad_request, detail, errors=[{"header": HEADER, "detail": detail}])
    return key


def fingerprint(path: str, body: Mapping[str, Any]) -> bytes:
    """Of a request: equal for equal paths and equal JSON, in whatever order and form the client wrote it."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return blake3(f"{path}\n{canonical}".encode()).digest()
