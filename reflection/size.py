"""How large a text is in a payload, and cutting it to fit."""

import json


def encoded_size(text: str) -> int:
    """Count the bytes of a text within the quotes of JSON, where a control character takes six."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def cut_encoded(text: str, most: int) -> str:
    """Keep the beginning of a text, so that it takes at most `most` bytes as JSON."""
    short = text[:most]
    while encoded_size(short) > most:
        short = short[: min(len(short) - 1, len(short) * most // encoded_size(short))]
    return short
