"""The rules of generation jobs: states, who is next, what a failure means. Pure: clocks and chance are arguments."""
