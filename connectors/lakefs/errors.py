"""lakeFS's answers mapped to our errors."""

from __future__ import annotations

import json

from lakefs_sdk.exceptions import ApiException

from headwater.rules.errors import HeadwaterError, NotFound, Refused, Unavailable

ALREADY_EXISTS = 409
TOO_MANY_REQUESTS = 429


def mapped(error: Exception, asked: str, endpoint: str) -> HeadwaterError:
    """Our error for what lakeFS answered (ApiException) or for no answer at all (urllib3's errors).

    ``facts["status"]`` is the HTTP status, where there was one.
    """
    if not isinstance(error, ApiException) or not error.status:
        return Unavailable(
            f"lakeFS at {endpoint} does not answer: {error}",
            asked=asked,
            kept="Published versions are kept.",
            advice="Check that lakeFS runs and that lakefs.endpoint (or HEADWATER_LAKEFS) names it.",
        )
    return judged(int(error.status), _message(error), asked, endpoint)


def judged(status: int, answer: str, asked: str, endpoint: str) -> HeadwaterError:
    """Our error for an HTTP status, of a whole answer or of one item in it, and the message beside it."""
    if status in (401, 403):
        return Refused(
            f"lakeFS at {endpoint} refused the credentials or the permission: {answer}",
            asked=asked,
            kept="Nothing was changed.",
            advice="Set lakefs.access_key_id and lakefs.secret_access_key_file (or HEADWATER_LAKEFS) to a key that may "
            "read and write the repository.",
            status=status,
        )
    if status == 404:
        return NotFound(f"lakeFS at {endpoint} has no such thing: {answer}", asked=asked, status=status)
    if status == TOO_MANY_REQUESTS or status >= 500:
        return Unavailable(
            f"lakeFS at {endpoint} cannot do it now ({status}): {answer}",
            asked=asked,
            kept="Published versions are kept.",
            advice="It is tried again; look at lakeFS's own log if it stays.",
            status=status,
        )
    return Refused(f"lakeFS at {endpoint} refused ({status}): {answer}", asked=asked, status=status)


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason or error.body or "no reason given")
