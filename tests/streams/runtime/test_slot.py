"""Slots: one number for one process, and a dead process's number for the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headwater.streams.runtime.slot import take_slot

HOLDER = """
import sys
from pathlib import Path
from headwater.streams.runtime.slot import take_slot
with take_slot(Path(sys.argv[1]), "till", "host") as slot:
    print(slot.transactional_id, flush=True)
    sys.stdin.read()
"""


def test_members_on_one_host_get_different_ids_and_groups_do_not_share_them(tmp_path: Path) -> None:
    with (
        take_slot(tmp_path, "till", "host") as first,
        take_slot(tmp_path, "till", "host") as second,
        take_slot(tmp_path, "other", "host") as other,
    ):
        ids = [slot.transactional_id for slot in (first, second, other)]
    assert ids == ["till.host.0", "till.host.1", "other.host.0"]


def test_a_killed_members_number_is_used_again(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "till.host.0"
        with take_slot(tmp_path, "till", "host") as beside:
            assert beside.number == 1
        holder.kill()
        holder.wait()
        with take_slot(tmp_path, "till", "host") as heir:
            assert heir.number == 0
