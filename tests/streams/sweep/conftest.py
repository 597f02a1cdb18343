"""A database of jobs for the tests of a module, empty for each of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.stack.postgres import create_database, database_address
from tests.any_job import Place, any_place


@pytest.fixture(scope="module")
def shared_place(stack: Any) -> Iterator[Place]:
    name = f"t{uuid.uuid4().hex[:12]}"
    create_database(stack.postgres, name)
    with any_place(database_address(stack.postgres, name)) as place:
        yield place


@pytest.fixture
def place(shared_place: Place) -> Place:
    shared_place.empty()
    return shared_place
