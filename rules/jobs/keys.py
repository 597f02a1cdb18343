"""API keys: ``hw_`` and 32 random bytes as 43 characters of base64url. Kept as their hash only.

A plain hash is enough: nobody can try 2^256 keys, and looking one up costs no time that an attacker could spend.
"""

from __future__ import annotations

import base64
import re

from blake3 import blake3

RANDOM_BYTES = 32
_FORM = re.compile(r"hw_[A-Za-z0-9_-]{43}")
_HINT_CHARACTERS = 7


def new_key(random: bytes) -> str:
    """The key of ``RANDOM_BYTES`` random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a key takes {RANDOM_BYTES} random bytes, not {len(random)}")
    return "hw_" + base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def is_key(text: str) -> bool:
    """Has it the form of a key? Then it is worth a look into the catalog."""
    return _FORM.fullmatch(text) is not None


def key_hash(key: str) -> bytes:
    """What the catalog keeps of a key."""
    return blake3(key.encode()).digest()


def key_hint(key: str) -> str:
    """What people may see of a key, to tell theirs apart."""
    return key[:_HINT_CHARACTERS]
