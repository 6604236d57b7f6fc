"""Where spans and metrics go, and whether they hold prompts."""

import socket
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from commands.doctor.check import Check
from reflection.plain import plain
from telemetry import CONTENT_VARIABLE

AREA = "telemetry"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PATIENCE_SECONDS = 1.0
PORTS = {"http": 80, "https": 443}


def telemetry_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at the endpoint of spans, and at what stands in them."""
    return [_endpoint(environment), _content(environment)]


def _endpoint(environment: Mapping[str, str]) -> Check:
    given = environment.get(ENDPOINT, "")
    if not given:
        said = f"spans and metrics go nowhere ({ENDPOINT} is not set here)"
        return Check(AREA, "endpoint", "ok", said)
    place = _place(given)
    if place is None:
        said = f"{ENDPOINT} is no address such as http://127.0.0.1:4318"
        return Check(AREA, "endpoint", "wrong", said, ("give http://host:port",))
    # Name and password may stand in an address, and are shown to nobody.
    shown = plain(f"{place.scheme}://{place.hostname}:{place.port or PORTS[place.scheme]}", 200)
    if "grpc" in environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", ""):
        said = "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and OTLP over HTTP is sent"
        return Check(AREA, "endpoint", "warning", said, ("give the collector's HTTP port, 4318",))
    if not _listens(place):
        said = f"nobody listens at {shown}: spans and metrics are lost"
        return Check(
            AREA, "endpoint", "warning", said, (f"start a collector, or unset {ENDPOINT}",)
        )
    return Check(AREA, "endpoint", "ok", f"spans and metrics go to {shown}")


def _place(given: str) -> SplitResult | None:
    try:
        place = urlsplit(given)
        known = place.scheme in PORTS and place.hostname and place.port != 0
    except ValueError:
        return None
    return place if known else None


def _listens(place: SplitResult) -> bool:
    where = (place.hostname or "", place.port or PORTS[place.scheme])
    try:
        with socket.create_connection(where, timeout=PATIENCE_SECONDS):
            return True
    except (OSError, UnicodeError):
        return False


def _content(environment: Mapping[str, str]) -> Check:
    wanted = environment.get(CONTENT_VARIABLE, "").lower() in {"true", "1", "span_only"}
    if wanted:
        said = f"prompts and replies stand in spans ({CONTENT_VARIABLE})"
        return Check(AREA, "content", "warning", said, ("unset it where that is not meant",))
    return Check(AREA, "content", "ok", "no prompt and no reply stands in a span")
