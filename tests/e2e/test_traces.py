"""`mull traces`, on runs whose worker had no tracing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.conftest import AGREE, NO_KEY, Cli

RUN = "invoke_workflow SelfConsistencyWorkflow"


class Sink(BaseHTTPRequestHandler):
    """Takes spans by OTLP over HTTP."""

    names: list[str]

    def do_POST(self) -> None:
        """Keep the names of the spans that come."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.names.extend(span.name for span in scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def sink() -> Iterator[str]:
    """An endpoint for spans; its address."""
    Sink.names = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_run_s_spans_are_shown_and_sent(cli: Cli, sink: str) -> None:
    """The tree has the run, its decisions and calls; as many go to the endpoint, and it says so."""
    cli("ask", "traced?", "--seed", str(AGREE), "--id", "traced")

    shown = cli("traces", "traced")
    sent = cli("traces", "traced", "--send", "--json", OTEL_EXPORTER_OTLP_ENDPOINT=sink)

    lines = [line.split()[0] for line in shown.stdout.splitlines()]
    document = json.loads(sent.stdout)
    [run] = document["runs"]
    assert shown.stdout.splitlines()[1].startswith(f"  {RUN}  ")
    assert lines.count("chat") == lines.count("mull.decision") == 5
    assert sorted(span["name"] for span in run["spans"]) == sorted(Sink.names)
    assert (document["spans"], document["lost"], document["sent"]) == (len(Sink.names), 0, True)
    assert f"sent {len(Sink.names)} spans of 1 run" in sent.stderr
    assert Sink.names.count("mull.decision") == 5


def test_a_failed_call_is_rebuilt_with_its_error(cli: Cli) -> None:
    """The span of a call that failed for good has the provider's class."""
    cli("ask", "refused?", "--seed", str(NO_KEY), "--id", "untraced", "--max-responses", "1")

    shown = cli("traces", "untraced").stdout

    assert "AuthenticationError" in next(line for line in shown.splitlines() if "chat " in line)


@pytest.mark.parametrize(
    ("arguments", "more", "said", "code"),
    [
        (["any", "--send"], {}, "--send: set OTEL_EXPORTER_OTLP_ENDPOINT", 2),
        (["no-such-run"], {}, "no run has this id", 2),
        (
            ["traced", "--send"],
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            },
            "took no spans of traced",
            1,
        ),
    ],
)
def test_what_can_t_be_done_is_said_in_one_line(
    cli: Cli, arguments: list[str], more: dict[str, str], said: str, code: int
) -> None:
    """Without an endpoint, a run or a receiver there is one line."""
    done = cli("traces", *arguments, **more)

    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("Error: ") == 1
    assert "Traceback" not in done.stderr
