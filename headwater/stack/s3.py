"""The S3 server: versitygw over a folder, with object versions kept in a folder outside it."""

from __future__ import annotations

import os
import signal
from urllib.parse import parse_qs, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headwater.rules.errors import Unavailable
from headwater.stack import golang, processes
from headwater.stack.addresses import Addresses
from headwater.stack.description import program
from headwater.stack.home import LOOPBACK, Place
from headwater.stack.progress import Report
from headwater.stack.server import require_free_ports, require_listener


class S3:
    name = "s3"
    stop_signal = signal.SIGTERM
    _build = golang.Build("s3", "versitygw", "github.com/versity/versitygw/cmd/versitygw")

    def prepare(self, report: Report) -> None:
        self._build.binary(report)

    def start(self, place: Place, addresses: Addresses) -> None:  # noqa: ARG002
        if processes.alive(self.name, place.home):
            return
        require_free_ports(self.name, place.ports.of(self.name))
        objects, versions = place.home / "s3" / "objects", place.home / "s3" / "versions"
        for folder in (objects, versions):
            folder.mkdir(parents=True, exist_ok=True)
        argv = [
            str(self._build.path()), "--port", f"{LOOPBACK}:{place.ports.s3}",
            "--region", program(self.name).options["region"], "--keep-alive", "--quiet",
            "posix", "--versioning-dir", str(versions), str(objects),
        ]  # fmt: skip
        credentials = {"ROOT_ACCESS_KEY": place.secrets.s3_access_key, "ROOT_SECRET_KEY": place.secrets.s3_secret_key}
        processes.start_detached(self.name, argv, {**os.environ, **credentials}, place.home)

    def answer(self, address: str) -> str:
        parts = urlsplit(address)
        require_listener(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        try:
            reply = client(address).list_buckets()
        except (BotoCoreError, ClientError) as failure:
            raise Unavailable(f"The S3 server at {parts.hostname} does not answer: {failure}.") from failure
        server = reply["ResponseMetadata"]["HTTPHeaders"].get("server", "S3 server")
        return f"{server}, {len(reply['Buckets'])} bucket(s)"

    def finish(self, place: Place, address: str) -> None:  # noqa: ARG002
        create_bucket(address)


def client(address: str):  # type: ignore[no-untyped-def]  # boto3 makes its client classes at run time
    """A boto3 client for an address of the form that ``Addresses`` describes."""
    parts = urlsplit(address)
    return boto3.client(
        "s3",
        endpoint_url=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        aws_access_key_id=parts.username,
        aws_secret_access_key=parts.password,
        region_name=parse_qs(parts.query).get("region", ["us-east-1"])[0],
        config=Config(s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=10, retries={"max_attempts": 1}),
    )


def create_bucket(address: str) -> None:
    """Creates the address's bucket if the server lacks it."""
    bucket = urlsplit(address).path.strip("/")
    try:
        client(address).create_bucket(Bucket=bucket)
    except ClientError as failure:
        if failure.response["Error"]["Code"] not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
            raise Unavailable(f"The bucket {bucket} could not be made: {failure}.") from failure
