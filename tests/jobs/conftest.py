"""The benchmarks' tools are under test here: bench/ is where bench/run finds them too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
