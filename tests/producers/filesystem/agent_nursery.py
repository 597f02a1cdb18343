"""Agents in processes of their own, each forked from this one, which has imported all that they need: alive at once.

Reads one line of JSON per agent: kafka, prefix, catalog, config, and ``folder``, where the agent leaves its log and,
again and again, its status. Answers each with the new process's id. What the agent raises ends up in its log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from threading import Event, Thread
from typing import Any

from agent_process import make_agent

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.observe import logs
from headwater.producers.filesystem.agent import Agent


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are reaped by the kernel
    for line in sys.stdin:
        child = os.fork()
        if not child:
            become_agent(json.loads(line))
        print(child, flush=True)


def become_agent(given: dict[str, Any]) -> None:
    folder = Path(given["folder"])
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for standard, descriptor in ((0, nothing), (1, log), (2, log)):
        os.dup2(descriptor, standard)
    logs.configure(as_json=True)
    try:
        with Catalog(CatalogConfig(given["catalog"])) as catalog:
            agent, done = make_agent(given, catalog), Event()
            Thread(target=publish, args=(agent, folder / "status", done), daemon=True).start()
            agent.run()
            done.set()
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def publish(agent: Agent, path: Path, done: Event) -> None:
    """Leave the agent's newest status at ``path``, always whole."""
    while not done.wait(0.05):
        path.with_suffix(".new").write_text(json.dumps(agent.status.as_json()))
        path.with_suffix(".new").rename(path)


if __name__ == "__main__":
    main()
