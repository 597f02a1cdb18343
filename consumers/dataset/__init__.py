"""A dataset for those who use it: its versions, their files, their differences, their proof."""

from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.difference import FileDifference, diff
from headwater.consumers.dataset.export import Export, export
from headwater.consumers.dataset.reading import cat, ls, show
from headwater.consumers.dataset.requests import request_commit
from headwater.consumers.dataset.verification import Verification, verify

__all__ = [
    "Dataset",
    "Export",
    "FileDifference",
    "Verification",
    "cat",
    "diff",
    "export",
    "ls",
    "request_commit",
    "show",
    "verify",
]
