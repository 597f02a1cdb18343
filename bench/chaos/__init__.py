"""Faults on a stack of its own, a folder that never rests, and a checker that proves what came of both.

``checker`` is the verdict, ``evidence`` what it judges, ``gather`` where that comes from; ``workload`` and ``journal``
are the folder; ``servers``, ``members`` and ``proxy`` can fail, ``faults`` says how, ``rounds`` is the order of events.
bench/run sync-chaos and tests/chaos use it.
"""
