"""The rack summaries of casts (``headwater run gossip``): what each rack has together, who is slow, who is silent.

cast.availability ─► group.py ─┐
                               ├─► cast.py, a fold a cast ─► summaries ─► cast.racks, metrics
cast.manifests, cast.members,  │
cast.progress, cast.events ────┴─ facts.py
"""
