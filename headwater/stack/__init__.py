"""Starts, stops and inspects the local stack, and supervises our own detached processes."""

from headwater.stack.addresses import VARIABLES, Addresses, from_environment
from headwater.stack.description import Ports
from headwater.stack.doctor import Check, examine
from headwater.stack.live import live
from headwater.stack.local import ServerStatus, Stack, local_addresses, stack_home
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
    "examine",
    "follow",
    "from_environment",
    "live",
    "local_addresses",
    "log_names",
    "names",
    "stack_home",
    "start_detached",
    "stop",
    "tail",
]
