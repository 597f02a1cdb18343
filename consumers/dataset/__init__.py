"""A dataset for those who use it: its versions, their files, their differences, their proof."""
