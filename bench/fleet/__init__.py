"""A fleet of hosts on this machine: network namespaces, racks of bridges, links shaped by tc; root on Linux only.

``layout`` says what hosts and links there are, ``network`` makes them, ``claim`` sees that a dead run leaves nothing,
``traffic`` reads the links' counters. ``servers`` are Kafka and PostgreSQL on the management link, ``members`` the
processes in the namespaces, ``verdict`` what came of a cast. bench/run cast-real and cast-soak, and tests/cast use it.
"""
