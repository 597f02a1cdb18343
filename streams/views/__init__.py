"""What the whole fleet does, for people: throughput of each stage, health of each group. Faust, and only here."""
