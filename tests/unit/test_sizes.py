"""What the longest run allowed takes: its result fits a payload, and a wave fits a message."""

import pytest

from reflection.run import cut_encoded, encoded_size
from reflection.sampling import loop
from reflection.sampling.loop import Sampling
from reflection.sampling.request import WAVE_BYTES, SelfConsistencyRequest
from reflection.sampling.result import Response

PAYLOAD_BYTES = 2 * 1024 * 1024


@pytest.mark.parametrize("responses", [1, 10, 60, 200, 1_000])
@pytest.mark.parametrize("character", ["a", "数", "\x01"])
def test_the_largest_result_fits_a_payload(responses: int, character: str) -> None:
    """All answers different and as long as may be, every reasoning too: under 2 MiB."""
    request = SelfConsistencyRequest(
        question=cut_encoded(character * 20_000, 20_000), rule="fixed", max_responses=responses
    )
    sampling = Sampling(request)
    for index in range(responses):
        answer = cut_encoded(f"{index} {character * 3_000}", request.answer_bytes)
        reasoning = cut_encoded(character * 300_000, request.reasoning_bytes)
        sampling.count(Response(index=index, answer=answer, vote=answer, reasoning=reasoning))

    size = len(loop.result(sampling).model_dump_json().encode())

    assert size < PAYLOAD_BYTES


@pytest.mark.parametrize(("size", "calls"), [(100, 32), (50_000, 32), (100_000, 25)])
def test_a_wave_fits_one_message(size: int, calls: int) -> None:
    """A large question makes for smaller waves, whatever concurrency was asked for."""
    request = SelfConsistencyRequest(question="q" * size, max_concurrency=32)

    assert request.concurrency == calls
    assert request.concurrency * request.asked_bytes <= WAVE_BYTES


@pytest.mark.parametrize("text", ["", "plain", "é数", "\x00\x01", 'quoted "so"', "\ud800"])
def test_a_text_is_cut_to_bytes_of_json(text: str) -> None:
    """What is kept is a beginning that fits, and a text that fits is kept whole."""
    for most in range(12):
        short = cut_encoded(text, most)
        assert text.startswith(short)
        assert encoded_size(short) <= most
    assert cut_encoded(text, encoded_size(text)) == text
