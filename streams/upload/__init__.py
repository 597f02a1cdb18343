"""Upload: from changes of files to stored objects. Two lanes, each a consumer group of its site."""
