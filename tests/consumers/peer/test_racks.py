"""The rack of a host: set, looked up, or none."""

from dataclasses import replace

import pytest

from headwater.consumers.peer.racks import rack_of
from headwater.rules.errors import BadSettings


def test_the_setting_wins_over_the_topology(config, tmp_path):
    file = tmp_path / "racks.toml"
    file.write_text('h0 = "r4"\n')

    assert rack_of(replace(config, rack="r1", topology_file=file)) == "r1"


@pytest.mark.parametrize(
    ("name", "text"), [("racks.toml", 'h0 = "r4"\n"h.1" = "r5"\n'), ("racks.json", '{"h0": "r4"}')]
)
def test_the_topology_file_gives_each_host_its_rack(name, text, config, tmp_path):
    file = tmp_path / name
    file.write_text(text)

    assert rack_of(replace(config, topology_file=file)) == "r4"
    assert rack_of(replace(config, host="unlisted", topology_file=file)) == ""


@pytest.mark.parametrize("text", ["h0 = 4\n", "h0 = [\n"])
def test_a_topology_file_that_says_something_else_is_refused(text, config, tmp_path):
    file = tmp_path / "racks.toml"
    file.write_text(text)

    with pytest.raises(BadSettings, match=r"peer\.topology_file"):
        rack_of(replace(config, topology_file=file))
