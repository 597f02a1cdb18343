"""The local stack's settings."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """Where the local stack listens, on the loopback. What is not set is as ``compose/stack.toml`` says."""

    kafka_port: int | None = None
    kafka_controller_port: int | None = None
    postgres_port: int | None = None
    s3_port: int | None = None
    lakefs_port: int | None = None

    def ports(self) -> dict[str, int]:
        """The ports that are set, by what listens there."""
        values = {field.name.removesuffix("_port"): getattr(self, field.name) for field in fields(self)}
        return {name: port for name, port in values.items() if port is not None}
