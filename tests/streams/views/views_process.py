"""The views, in a process that a test may kill: ``views_process.py SERVERS PREFIX DIE_IN``.

With DIE_IN n above 0 it kills itself at the beginning of its n-th publication: the rows are in its table, what it says
next is not on the log, and the offsets of what it read are not committed.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from headwater.cli.service import run_until_signalled
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.observe import logs
from headwater.streams.views.picture import Picture
from headwater.streams.views.process import ViewsProcess
from headwater.streams.views.views import Views


def main() -> None:
    servers, prefix, die_in = sys.argv[1], sys.argv[2], int(sys.argv[3])
    logs.configure(level="info", as_json=True)
    logs.adopt("faust", "mode", "aiokafka", "asyncio")
    publish, numbers = Views.publish, count(1)

    async def dying(self: Views, shown: Picture) -> None:
        if next(numbers) == die_in:
            os.kill(os.getpid(), signal.SIGKILL)
        await publish(self, shown)

    if die_in:
        Views.publish = dying  # type: ignore[method-assign]
    run_until_signalled(ViewsProcess(Kafka(KafkaConfig(servers, prefix=prefix))))


if __name__ == "__main__":
    main()
