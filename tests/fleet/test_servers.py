"""The fleet's broker and database, asked from inside a namespace. For root only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fleet.layout import Layout
from fleet.network import missing, network
from fleet.servers import servers

pytestmark = [pytest.mark.stack, pytest.mark.skipif(bool(missing()), reason=missing())]

ASK = """
import sys
from confluent_kafka.admin import AdminClient
from psycopg import connect
found = AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=20)
print(*(str(broker) for broker in found.brokers.values()), "cast.manifests" in found.topics)
print(connect(sys.argv[2]).execute("SELECT count(*) > 0 FROM pg_tables WHERE schemaname = 'public'").fetchone())
"""


def test_hosts_reach_the_broker_and_the_database_and_their_clients_stay_on_the_management_link(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with network(Layout(racks=1, hosts=1, nic=40e6, oversubscription=1), home) as fleet:
        with servers(home, fleet.here) as served:
            words = [sys.executable, "-c", ASK, served.fleet_kafka, served.fleet_postgres]
            told = subprocess.check_output(fleet.command(fleet.members[0], words), text=True)
        assert told == f"{served.fleet_kafka}/1 True\n(True,)\n"
