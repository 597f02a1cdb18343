"""Two data planes, one at each end of a link: programs that bench/cast_pair.py starts, and what they measure."""
