"""The dataset on the real stack that the committer's tests fill, for those who read it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.consumers.dataset.dataset import Dataset

_NAME = "headwater_tests_commit_world"


def _load() -> Any:
    """Test modules cannot import each other in importlib mode: this one is loaded by its file."""
    if _NAME not in sys.modules:
        file = Path(__file__).parents[2] / "streams" / "commit" / "conftest.py"
        spec = importlib.util.spec_from_file_location(_NAME, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NAME])
    return sys.modules[_NAME]


shared_objects = _load().shared_objects
addresses = _load().addresses
world = _load().world


@pytest.fixture
def dataset(world: Any) -> Dataset:
    return Dataset(world.dataset, world.catalog, world.objects, world.lakefs)
