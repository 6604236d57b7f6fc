"""A worker whose model judges and answers as it is told in what it is asked."""

from collections.abc import Iterator

import pytest

from commands.embedded import Place
from tests.e2e.measuring.model import measured
from tests.scripted_endpoint import ScriptedEndpoint


@pytest.fixture(scope="session")
def serving(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], ScriptedEndpoint]]:
    with measured(place, tmp_path_factory.mktemp("worker")) as found:
        yield found


@pytest.fixture(scope="session")
def environment(serving: tuple[dict[str, str], ScriptedEndpoint]) -> dict[str, str]:
    return serving[0]


@pytest.fixture(scope="session")
def endpoint(serving: tuple[dict[str, str], ScriptedEndpoint]) -> ScriptedEndpoint:
    return serving[1]
