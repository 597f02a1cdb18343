"""Makes the namespaces and links of a layout, and shapes every link at both ends with a token bucket (tc-tbf(8))."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from fleet.claim import Claim, claim
from fleet.layout import DATA_NETWORK, MTU, Host, Layout
from headwater.rules.errors import NotFound, Unavailable

QUEUE_SECONDS = 0.05
"""A full bucket holds up frames for so long, then they are dropped: a switch of shallow buffers at these rates."""
_BURST_BYTES = 128 * 1024  # two of the largest segments that a kernel hands down whole: none is cut up for the bucket
_QUIET = "net.ipv6.conf.all.disable_ipv6=1"
"""Nothing but our own frames on the links."""


class Network:
    """A layout's hosts as they run now. Names of namespaces and links begin with the claim's prefix."""

    def __init__(self, layout: Layout, own: Claim) -> None:
        self.layout = layout
        self.claim = own
        self.core = f"{own.prefix}core"
        self.origin = layout.origin()
        self.members = list(layout.members())

    @property
    def hosts(self) -> list[Host]:
        return [self.origin, *self.members]

    @property
    def here(self) -> IPv4Address:
        """Where hosts reach this machine: on the management link."""
        return self.claim.management[1]

    def namespace(self, host: Host) -> str:
        return f"{self.claim.prefix}{host.name}"

    def command(self, host: Host, argv: Sequence[str]) -> list[str]:
        """Runs ``argv`` on the host, as the process that is started."""
        return ["ip", "netns", "exec", self.namespace(host), *argv]

    def make(self) -> None:
        namespaces = [self.core, *map(self.namespace, self.hosts)]
        _batch("ip", [f"netns add {name}" for name in namespaces])
        for name in namespaces:
            run(["ip", "netns", "exec", name, "sysctl", "-q", "-w", _QUIET])
        _batch("ip", self._core(), self.core)
        _batch("tc", self._buckets(), self.core)
        for host in self.hosts:
            _batch("ip", self._host(host), self.namespace(host))
            _batch("tc", [bucket("eth0", self.layout.nic)], self.namespace(host))
        outside = self.claim.outside_link
        run(["ip", "address", "add", f"{self.here}/{self.claim.management.prefixlen}", "dev", outside])
        run(["ip", "link", "set", outside, "up"])

    def _core(self) -> list[str]:
        """Bridges: the core, one for each rack, and the management's; a link from each to where it leads."""
        lines = [f"link add {name} type bridge" for name in ("core", "management", *self.layout.rack_names())]
        for rack in self.layout.rack_names():
            lines += [
                f"link add {rack}-up type veth peer name {rack}-down",
                f"link set {rack}-up master {rack}",
                f"link set {rack}-down master core",
            ]
        for host in self.hosts:
            space = self.namespace(host)
            lines += [
                f"link add {host.name} type veth peer name eth0 netns {space}",
                f"link add {host.name}.m type veth peer name management netns {space}",
                f"link set {host.name} master {host.rack or 'core'}",
                f"link set {host.name}.m master management",
            ]
        lines += [
            f"link add here type veth peer name {self.claim.outside_link} netns {os.getpid()}",
            "link set here master management",
        ]
        links = [line.split()[2] for line in lines if line.startswith("link add")]
        ends = [*links, *(f"{rack}-down" for rack in self.layout.rack_names())]
        return [*lines, *(f"link set {name} up" for name in ends)]

    def _buckets(self) -> list[str]:
        """Towards each host, out of each rack (up) and into each rack (down)."""
        lines = [bucket(host.name, self.layout.nic) for host in self.hosts]
        for rack in self.layout.rack_names():
            lines += [bucket(f"{rack}-up", self.layout.uplink), bucket(f"{rack}-down", self.layout.uplink)]
        return lines

    def _host(self, host: Host) -> list[str]:
        management = self.claim.management
        return [
            f"address add {host.address}/{DATA_NETWORK.prefixlen} dev eth0 noprefixroute",
            f"address add {management[host.number + 1]}/{management.prefixlen} dev management",
            *(f"link set {name} up" for name in ("lo", "eth0", "management")),
            # The kernel's usual control, wherever this machine has another: BBR overfills buffers as shallow as ours.
            f"route add {DATA_NETWORK} dev eth0 src {host.address} congctl cubic",
        ]


@contextmanager
def network(layout: Layout, home: Path) -> Iterator[Network]:
    """The hosts and links of ``layout`` until the block ends, whatever ends it. ``home`` is made, and goes with them.

    Raises NotFound where this machine cannot have them.
    """
    require()
    home.mkdir(parents=True, exist_ok=True)
    with claim(home.resolve()) as own:
        made = Network(layout, own)
        made.make()
        yield made


def missing() -> str:
    """Why this machine cannot have a fleet; empty where it can."""
    if os.geteuid() != 0:
        return "Network namespaces need root."
    programs = [name for name in ("ip", "tc", "sysctl") if shutil.which(name) is None]
    return f"{', '.join(programs)} is not installed (Debian, Ubuntu: iproute2, procps)." if programs else ""


def require() -> None:
    if why := missing():
        raise NotFound(f"No fleet of namespaces can be made here: {why}")


def bucket(link: str, bits_per_second: float) -> str:
    """The tc command that shapes what leaves by ``link``."""
    burst = max(_BURST_BYTES, int(bits_per_second / 8 / 250))  # one tick of a slow clock
    limit = burst + max(20 * MTU, int(bits_per_second / 8 * QUEUE_SECONDS))
    return f"qdisc replace dev {link} root tbf rate {bits_per_second:.0f}bit burst {burst} limit {limit}"


def run(argv: Sequence[str], text: str = "") -> str:
    """What it prints. Raises Unavailable with what it complains of."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(argv)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


def _batch(program: str, lines: Sequence[str], namespace: str = "") -> None:
    run([program, *(["-n", namespace] if namespace else []), "-batch", "-"], "\n".join(lines) + "\n")
