"""The swarm: what a thousand peers know, ask, answer and notice, by the rules of ``headwater.rules.cast``."""
