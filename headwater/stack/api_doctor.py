"""What ``headwater doctor`` looks at where this host serves generation jobs: the ports of its HTTP service."""

from __future__ import annotations

from headwater.producers.api.config import ApiConfig
from headwater.stack.doctor import Check, Holder
from headwater.stack.server import port_is_free


def check_port(setting: str, port: int, holder: Holder) -> Check:
    name = setting.replace("_", " ")
    if port == 0:
        fix = f"Set api.{setting}: commands and workers must know where it is."
        return Check(f"api {name}", "warn", "any free one", fix)
    if holder == "other":
        return Check(f"api {name}", "fail", f"{port} is taken by another program", f"Set api.{setting} to a free port.")
    return Check(f"api {name}", "ok", f"{port} is {'free' if holder == 'free' else 'ours'}")


def examine_api(config: ApiConfig, *, running: bool) -> list[Check]:
    """Looks who listens. ``running``: our service does."""
    ports = {"port": (config.host, config.port), "internal_port": (config.internal_host, config.internal_port)}
    return [
        check_port(setting, port, "ours" if running else "free" if port_is_free(port, host) else "other")
        for setting, (host, port) in ports.items()
    ]
