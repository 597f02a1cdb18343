"""Names of tenants and pools: they stand in metrics, unit names, topics' keys and logs as they are."""

from __future__ import annotations

import re

from headwater.rules.errors import BadSettings

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def require_name(what: str, name: str) -> None:
    """Raises BadSettings where ``name`` cannot name a ``what``."""
    if _NAME.fullmatch(name) is None:
        raise BadSettings(
            f"{name!r} cannot name a {what}.",
            kept="Nothing was changed.",
            advice="Use up to 63 lower case letters, digits, dots, dashes, underscores; begin with a letter or digit.",
        )
