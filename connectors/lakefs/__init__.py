"""lakeFS: the client that gives immutable objects their paths, branches, commits and tags."""
