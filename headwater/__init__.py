"""Headwater: media from on-prem disks to GPUs over an Apache Kafka log."""

__version__ = "0.1.0"
