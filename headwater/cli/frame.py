"""What every command gets: the settings, and clients of the servers that they name, opened when first asked for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:  # commands that need no server start without loading any client
    from headwater.connectors.api.client import Client
    from headwater.connectors.catalog.client import Catalog
    from headwater.connectors.jobs.database import JobsDatabase
    from headwater.connectors.kafka.client import Kafka
    from headwater.connectors.lakefs.client import LakeFS
    from headwater.connectors.s3.store import ObjectStore
    from headwater.rules.errors import Unavailable
    from headwater.settings import Settings
    from headwater.stack.local import Stack

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@dataclass
class Frame:
    """One run of the command line. Clients are closed when the command ends."""

    config: Path | None = None
    assignments: tuple[str, ...] = ()
    debug: bool = False
    closing: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def settings(self) -> Settings:
        """Raises BadSettings."""
        from headwater import settings
        from headwater.stack.home import local_variables

        return settings.load(file=self.config, flags=self.assignments, local_stack=local_variables)

    @cached_property
    def kafka(self) -> Kafka:
        from headwater.connectors.kafka.client import Kafka

        return Kafka(self.settings.needed_kafka())

    @cached_property
    def catalog(self) -> Catalog:
        from headwater.connectors.catalog.client import Catalog

        return self.closing.enter_context(Catalog(self.settings.needed_catalog()))

    @cached_property
    def jobs(self) -> JobsDatabase:
        from headwater.connectors.jobs.database import JobsDatabase

        return self.closing.enter_context(JobsDatabase(self.settings.needed_jobs()))

    @cached_property
    def client(self) -> Client:
        """The HTTP service of generation jobs, as a tenant uses it."""
        from headwater.connectors.api.client import Client

        return self.closing.enter_context(Client(self.settings.client))

    @cached_property
    def store(self) -> ObjectStore:
        from headwater.connectors.s3.store import ObjectStore

        return ObjectStore(self.settings.needed_s3())

    @cached_property
    def lakefs(self) -> LakeFS:
        from headwater.connectors.lakefs.client import LakeFS

        return LakeFS(self.settings.needed_lakefs())

    @cached_property
    def stack(self) -> Stack:
        """The local stack of the state folder."""
        from headwater.stack.home import stack_home
        from headwater.stack.local import Stack

        return Stack(stack_home(self.settings.state_folder))

    def explain(self, error: Unavailable) -> None:
        """Where a server of the local stack does not answer because it is stopped, the error says how to start it."""
        from headwater.rules.errors import BadSettings
        from headwater.stack.home import local_variables

        try:
            local = local_variables(self.settings.state_folder)
            named = any(address.rpartition("@")[2].partition("/")[0] in error.happened for address in local.values())
            if named and not self.stack.running():
                error.advice = f"The local stack in {self.settings.state_folder} is stopped: `headwater up` starts it."
        except BadSettings:
            return  # the error's own advice stands

    def log_as_a_service(self, *, as_json: bool | None = None) -> None:
        """From now on this process logs at the level of the settings: for commands that run until they are stopped.

        ``as_json`` None: JSON unless a person watches.
        """
        from headwater.observe import logs

        level = "debug" if self.debug else self.settings.log_level
        logs.configure(level=level, as_json=as_json or None)


def of(context: typer.Context) -> Frame:
    return cast(Frame, context.obj)
