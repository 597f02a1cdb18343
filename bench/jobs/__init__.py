"""The whole job service as real processes, clients and a receiver around it, and a checker that proves what came of it.

``service`` starts it, ``load`` posts and asks, ``receiver`` hears the webhooks; ``evidence`` is the recorded history,
``gather`` where it comes from, ``checker`` the verdict on it, ``forged`` the histories that the verdict must catch;
``faults`` and ``rounds`` are what bench/run jobs-chaos does with them.
"""
