"""Starts, stops and inspects the local stack, and supervises our own detached processes."""

from headwater.stack.addresses import VARIABLES, Addresses, from_environment
from headwater.stack.description import Ports
from headwater.stack.local import ServerStatus, Stack, default_home
from headwater.stack.processes import Running, alive, names, start_detached, stop
from headwater.stack.progress import Report, Step

__all__ = [
    "VARIABLES",
    "Addresses",
    "Ports",
    "Report",
    "Running",
    "ServerStatus",
    "Stack",
    "Step",
    "alive",
    "default_home",
    "from_environment",
    "names",
    "start_detached",
    "stop",
]
