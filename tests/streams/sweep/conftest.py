"""A database of jobs, for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.any_job import Place, any_place


@pytest.fixture
def place(catalog_dsn: str) -> Iterator[Place]:
    with any_place(catalog_dsn) as place:
        yield place
