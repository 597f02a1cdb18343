-- Run by the image when it makes the cluster: lakeFS keeps its metadata in a database of its own.
CREATE DATABASE lakefs;
