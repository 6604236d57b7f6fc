"""A worker with a model that researches and codes as it is told in the prompt."""

from collections.abc import Iterator

import pytest

from commands.embedded import Place
from tests.e2e.agent.model import working


@pytest.fixture(scope="session")
def environment(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with working(place, tmp_path_factory.mktemp("agent")) as found:
        yield found
