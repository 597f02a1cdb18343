"""``python -m headwater.cli``: how `headwater up` starts its own processes."""

from headwater.cli import main

main()
