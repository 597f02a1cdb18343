"""A cast to a thousand hosts, simulated with the peer's own rules: bandwidth as a fluid, shared max-min fairly."""
