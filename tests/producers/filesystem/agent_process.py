"""An agent in a process of its own, which dies at a named step of a protocol, or runs until SIGTERM.

Arguments: the step (or ``none``) and a JSON object with kafka, prefix, catalog and the agent's config. On SIGTERM it
prints its last status as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.observe import logs
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.outbox import Outbox
from headwater.producers.filesystem.requests import Requests


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wrap(owner: type, name: str, *, before: Callable[[Any], bool] | None = None, after: bool = False) -> None:
    """Die before the step where ``before`` says so, or after it once it did something."""
    step = getattr(owner, name)

    def dying(self: Any, *arguments: Any) -> Any:
        if before is not None and before(self):
            die()
        done = step(self, *arguments)
        if after and done is not False:
            die()
        return done

    setattr(owner, name, dying)


def wrap_step(step: str) -> None:
    if step == "before the change is committed":
        wrap(Agent, "_record", before=lambda agent: not agent._readers._outcomes.empty())
    if step == "after the change is committed":
        wrap(Agent, "_record", after=True)
    if step == "after the record is acknowledged":
        wrap(Outbox, "_forget_acknowledged", before=lambda outbox: bool(outbox._acknowledged))
    if step == "after the record left the outbox":
        wrap(Outbox, "_forget_acknowledged", after=True)
    if step == "before requests are marked":
        wrap(Requests, "_mark", before=lambda _: True)
    if step == "after requests are marked":
        wrap(Requests, "_mark", after=True)


def make_agent(given: dict[str, Any], catalog: Catalog) -> Agent:
    settings = {**given["config"], **{name: Path(given["config"][name]) for name in ("root", "state_folder")}}
    kafka = Kafka(KafkaConfig(given["kafka"], prefix=given["prefix"]))
    agent = Agent(AgentConfig(**settings), kafka, catalog)
    signal.signal(signal.SIGTERM, lambda *_: agent.stop())
    return agent


def main() -> None:
    step, text = sys.argv[1:]
    given = json.loads(text)
    logs.configure(as_json=True)
    wrap_step(step)
    with Catalog(CatalogConfig(given["catalog"])) as catalog:
        print(json.dumps(make_agent(given, catalog).run().as_json()), flush=True)


if __name__ == "__main__":
    main()
