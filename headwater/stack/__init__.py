"""Starts, stops and inspects the local stack, and supervises our own detached processes."""

from headwater.stack.addresses import VARIABLES, Addresses, from_environment
from headwater.stack.description import Ports
from headwater.stack.doctor import Check, examine
from headwater.stack.live import live
from headwater.stack.local import ServerStatus, Stack, default_home
from headwater.stack.logs import follow, log_names, tail
from headwater.stack.processes import Running, alive, names, start_detached, stop
from headwater.stack.progress import Report, Step

__all__ = [
    "VARIABLES",
    "Addresses",
    "Check",
    "Ports",
    "Report",
    "Running",
    "ServerStatus",
    "Stack",
    "Step",
    "alive",
    "default_home",
    "examine",
    "follow",
    "from_environment",
    "live",
    "log_names",
    "names",
    "start_detached",
    "stop",
    "tail",
]
