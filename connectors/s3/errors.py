"""What S3, obstore and botocore say went wrong, as our errors.

obstore has few exception types and puts the server's answer into the text, so status and code are read from there;
botocore has them as fields. Both end in ``judge``, so that a refusal reads the same whichever client met it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import botocore.exceptions
import obstore.exceptions

from headwater.connectors.s3.config import S3Config
from headwater.rules.errors import Corrupt, HeadwaterError, NotFound, Refused, Unavailable

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]+)</Message>")

_CREDENTIALS = {
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "XAdminUserNotFound",  # versitygw, with status 404
    "ExpiredToken",
    "InvalidToken",
    "AuthorizationHeaderMalformed",
}
_CHECKSUM = {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "ContentSHA256Mismatch"}
_SKEW = {"RequestTimeTooSkewed", "RequestExpired"}
_CLIENT_REQUEST = re.compile(r"^Generic S3 error: Error performing .*? - ")
"""How obstore begins: the request and its retry settings, which our own sentences name already."""
_BUSY_STATUS = {408, 409, 429, 500, 502, 503, 504}


@contextmanager
def mapped(config: S3Config, asked: str) -> Iterator[None]:
    """Raise our errors in place of the clients' own. ``asked`` is the request in words, e.g. ``PUT objects/ab/…``."""
    try:
        yield
    except (obstore.exceptions.BaseError, FileNotFoundError) as error:
        status, code, text = _from_obstore(error)
        raise judge(config, asked, status, code, text) from error
    except botocore.exceptions.ClientError as error:
        answer = error.response.get("Error", {})
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        raise judge(config, asked, status, answer.get("Code", ""), answer.get("Message", str(error))) from error
    except (botocore.exceptions.NoCredentialsError, botocore.exceptions.PartialCredentialsError) as error:
        raise _refused(config, asked, str(error)) from error
    except botocore.exceptions.BotoCoreError as error:  # timeouts, refused and dropped connections
        raise _unavailable(config, asked, str(error)) from error


def _from_obstore(error: Exception) -> tuple[int, str, str]:
    text = str(error)
    status = _STATUS.search(text)
    code = _CODE.search(text)
    message = _MESSAGE.search(text)
    first_line = _CLIENT_REQUEST.sub("", text.split("\n", 1)[0])
    return int(status[1]) if status else 0, code[1] if code else "", message[1] if message else first_line


def judge(config: S3Config, asked: str, status: int, code: str, text: str) -> HeadwaterError:
    """The error that an answer of the server stands for. ``status`` 0: there was no answer."""
    said = f"{code}: {text}" if code else text
    if code in _CREDENTIALS or (status in (401, 403) and code not in _SKEW):
        return _refused(config, asked, said)
    if code in _SKEW:
        return Unavailable(
            f"S3 refused the request because of its time ({said}).",
            asked=f"{asked} in {config.place}.",
            kept="What was stored before is kept.",
            advice="Set this host's clock (NTP): S3 allows 15 minutes of difference.",
        )
    if code in _CHECKSUM:
        return Corrupt(
            f"the bytes that arrived do not match their checksum ({said}).",
            asked=f"{asked} in {config.place}.",
            kept="S3 kept nothing of this request.",
            advice="If it repeats, suspect memory or network hardware between this host and S3.",
        )
    if code == "NoSuchBucket":
        return Refused(
            f"the bucket does not exist ({said}).",
            asked=f"{asked} in {config.place}.",
            kept="Nothing was written.",
            advice="Create the bucket, or correct the bucket (s3.bucket or HEADWATER_S3).",
        )
    if status in (404, 416):
        return NotFound(
            f"S3 has no such thing ({said}).", asked=f"{asked} in {config.place}.", kept="Nothing was changed."
        )
    if status == 0 or status in _BUSY_STATUS:
        return _unavailable(config, asked, said)
    return Refused(
        f"S3 refused: {said} (status {status}).",
        asked=f"{asked} in {config.place}.",
        kept="Nothing was written.",
        advice="Look at the server's log for this request.",
    )


def _refused(config: S3Config, asked: str, said: str) -> Refused:
    return Refused(
        f"S3 refused the credentials ({said}).",
        asked=f"{asked} in {config.place}.",
        kept="Nothing was written.",
        advice="Set s3.access_key_id and s3.secret_access_key_file (or HEADWATER_S3) to a key that may read and write "
        "this bucket.",
    )


def _unavailable(config: S3Config, asked: str, said: str) -> Unavailable:
    return Unavailable(
        f"S3 does not answer ({said}).",
        asked=f"{asked} in {config.place}.",
        kept="What was stored before is kept; this request may or may not have arrived.",
        advice="Check that the server runs and that s3.endpoint (or HEADWATER_S3) names it.",
    )
