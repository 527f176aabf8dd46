from pathlib import Path

import pytest

from tests.cli.directories import build


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return build(tmp_path / "data")
