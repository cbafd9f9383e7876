"""Traces go from the client through the hub to the upstream, to a collector that a real exporter sends them to."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sessions_app.protocol.errors import INTERNAL_CODES
from tests.collector import Collector
from tests.servers import Hub, free_port, until
from tests.upstreams.conftest import Operator, Peer
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

SECRET = "ghp_" + "a1B2" * 9
"""Of a known form, which the audit hides wherever it stands."""
BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


@pytest.fixture(scope="module")
def hub(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
        "MCPHUB_OTLP_ENDPOINT": collector.url,
        "MCPHUB_TRACE_SHARE": "0",
        "MCPHUB_TRACE_BODIES": "1",
        "MCPHUB_TRACE_URL": "https://jaeger.example/trace/{trace_id}?uiFind={span_id}",
        "MCPHUB_METRICS_PORT": str(free_port()),
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    made = Hub(tmp_path_factory.mktemp("traced"), packs=["starter"], environment=environment)
    with made, Peer("chaos.py", "http") as bare:
        Operator(made).connect("bare", url=bare.url)
        yield made


@pytest.fixture
def speaker(hub: Hub) -> Iterator[Speaker]:
    with Speaker(hub.url, hub.key) as made:
        until(lambda: "bare.echo" in made.modern("tools/list").text)
        yield made


def context(flags: str = "01") -> tuple[str, str, str]:
    """Return a traceparent, its trace and its span."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return f"00-{trace}-{span}-{flags}", trace, span


def spans_of(collector: Collector, trace: str, name: str) -> dict[str, dict[str, Any]]:
    """Return a trace's spans by name, once the one of that name is there: the last that ends."""
    until(lambda: any(span["name"] == name for span in collector.of(trace)))
    return {f"{span['kind']} {span['name']}": span for span in collector.of(trace)}


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_a_call_is_one_trace_from_the_client_through_the_hub_to_the_upstream(
    era: str, hub: Hub, speaker: Speaker, collector: Collector
) -> None:
    parent, trace, span = context()
    meta = {"traceparent": parent, "tracestate": "v=1", "baggage": "who=ada"}
    if era == "stateless":
        answer = speaker.modern_call("bare.echo", {"note": SECRET, "text": "hi"}, **meta)
    else:
        session = speaker.open_session()
        params = {"name": "bare.echo", "arguments": {"note": SECRET, "text": "hi"}, "_meta": meta}
        answer = speaker.in_session(session, "tools/call", params)
    got = json.loads(text_of(answer))["meta"]
    found = spans_of(collector, trace, "tools/call bare.echo")
    server, client = found["server tools/call bare.echo"], found["client tools/call echo"]
    assert (server["parent"], server["state"], server["failed"]) == (span, "v=1", False)
    assert {"internal mcphub.ledger.outcome", "internal mcphub.backend"} <= found.keys()
    assert (
        found["internal mcphub.backend"]["parent"] == found["internal mcphub.ledger.outcome"]["parent"] == server["id"]
    )
    # The upstream is under the hub's own span, in the client's trace, with what travels beside it.
    assert client["parent"] == found["internal mcphub.backend"]["id"]
    assert got["traceparent"] == f"00-{trace}-{client['id']}-01"
    assert (got["tracestate"], got["baggage"]) == ("v=1", "who=ada")
    attributes = server["attributes"]
    assert attributes["mcp.method.name"] == "tools/call"
    assert attributes["gen_ai.tool.name"] == "bare.echo"
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert (attributes["network.transport"], attributes["network.protocol.name"]) == ("tcp", "http")
    assert attributes["client.address"] == "127.0.0.1"
    assert ("mcp.session.id" in attributes) is (era == "handshake")
    assert client["attributes"]["server.address"] == "127.0.0.1"
    assert client["attributes"]["mcphub.connection"] == "bare"
    assert server["resource"]["service.name"] == "mcphub"
    assert server["resource"]["deployment.environment.name"] == "test"
    # The row knows both, and bodies are those of the row.
    row = until(lambda: hub.rows(trace_id=trace))[0]
    assert (row["span_id"], row["invocation_id"]) == (server["id"], attributes["mcphub.invocation.id"])
    assert SECRET not in json.dumps([each["attributes"] for each in found.values()])
    assert '"text":"hi"' in attributes["gen_ai.tool.call.arguments"]


def test_the_context_of_http_is_a_link_and_no_parent(speaker: Speaker, collector: Collector) -> None:
    parent, trace, span = context()
    around, other, _ = context()
    body = speaker.modern_body("tools/call", {"name": "bare.echo", "arguments": {}})
    body["params"]["_meta"]["traceparent"] = parent
    answer = speaker.post(
        body, mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="bare.echo", traceparent=around
    )
    assert answer.status_code == 200, answer.text
    found = spans_of(collector, trace, "tools/call bare.echo")["server tools/call bare.echo"]
    assert (found["parent"], found["links"]) == (span, [other])


def test_a_failure_has_its_code_and_an_unknown_tool_names_no_span(speaker: Speaker, collector: Collector) -> None:
    parent, trace, _ = context()
    speaker.modern_call("no-such-tool", {}, traceparent=parent)
    found = spans_of(collector, trace, "tools/call")["server tools/call"]
    assert found["failed"]
    assert (found["attributes"]["error.type"], found["attributes"]["rpc.response.status_code"]) == ("-32602", "-32602")
    parent, trace, _ = context()
    speaker.modern_call("add", {"a": "x"}, traceparent=parent)
    found = spans_of(collector, trace, "tools/call add")["server tools/call add"]
    assert (found["attributes"]["error.type"], found["attributes"]["mcphub.error.code"]) == (
        "tool_error",
        "invalid_arguments",
    )


def test_a_client_that_is_not_sampled_has_no_spans_and_its_trace_on_record(
    hub: Hub, speaker: Speaker, collector: Collector
) -> None:
    parent, trace, _ = context("00")
    got = json.loads(text_of(speaker.modern_call("bare.echo", {}, traceparent=parent)))["meta"]
    assert got["traceparent"] == parent
    row = until(lambda: hub.rows(trace_id=trace))[0]
    assert row["span_id"] is None
    # Those that came later have arrived, and of this trace nothing.
    later, after, _ = context()
    speaker.modern_call("bare.echo", {}, traceparent=later)
    spans_of(collector, after, "tools/call bare.echo")
    assert collector.of(trace) == []


def test_durations_arrive_with_the_buckets_of_the_conventions(speaker: Speaker, collector: Collector) -> None:
    for _ in range(3):
        speaker.modern_call("bare.echo", {})
    of_server, of_client = "mcp.server.operation.duration", "mcp.client.operation.duration"

    def calls() -> list[dict[str, Any]]:
        return [each for each in collector.durations.get(of_server, []) if each.get("gen_ai.tool.name") == "bare.echo"]

    # What came first may be older than the first call.
    until(lambda: of_client in collector.durations and calls())
    points = collector.durations[of_server]
    assert {each["unit"] for each in points} == {"s"}
    assert all(each["bounds"] == BUCKETS for each in points)
    assert all("jsonrpc.request.id" not in each for each in points)


def test_a_collector_that_is_away_or_hangs_holds_nothing_up_and_is_told_of_once(tmp_path: Path) -> None:
    with Collector() as collector:
        collector.status = 503
        environment = {"MCPHUB_OTLP_ENDPOINT": collector.url, "MCPHUB_METRICS_PORT": str(free_port())}
        with (
            Hub(tmp_path / "hub", packs=["starter"], environment=environment) as hub,
            Speaker(hub.url, hub.key) as speaker,
        ):
            metrics = f"http://127.0.0.1:{environment['MCPHUB_METRICS_PORT']}/metrics"

            def figure(name: str) -> float:
                found = re.search(
                    rf"^{name}(?:\{{[^}}]*\}})? (\S+)$",
                    httpx2.get(metrics, timeout=PATIENCE_SECONDS).text,
                    re.MULTILINE,
                )
                assert found is not None, name
                return float(found[1])

            for _ in range(5):
                assert speaker.modern_call("add", {"a": 1, "b": 2}).status_code == 200
            until(lambda: figure("mcphub_traces_failing") == 1)
            collector.goes_on.clear()
            for _ in range(5):
                assert speaker.modern_call("add", {"a": 1, "b": 2}).status_code == 200
            assert until(lambda: hub.log().count("takes nothing")) == 1  # the figure is there before the line
        # It has stopped with status 0 although the collector hangs.


def test_a_backend_that_takes_traces_and_no_metrics_fails_nothing(tmp_path: Path) -> None:
    with Collector() as collector:
        collector.unknown.add("/v1/metrics")
        environment = {"MCPHUB_OTLP_ENDPOINT": collector.url}
        hub = Hub(tmp_path / "hub", packs=["starter"], environment=environment)
        with hub, Speaker(hub.url, hub.key) as speaker:
            assert speaker.modern_call("add", {"a": 1, "b": 2}).status_code == 200
        # Durations are sent every half a minute, and when the hub stops.
        assert any(span["name"] == "tools/call add" for span in collector.spans)
        assert not collector.durations
        assert hub.log().count("takes no metrics") == 1
        assert "takes nothing" not in hub.log()


def test_the_dashboard_and_the_alert_rules_ask_for_metrics_that_exist(hub: Hub, speaker: Speaker) -> None:
    speaker.modern_call("bare.echo", {})
    text = httpx2.get(
        f"http://127.0.0.1:{hub.environment['MCPHUB_METRICS_PORT']}/metrics", timeout=PATIENCE_SECONDS
    ).text
    families = list(text_string_to_metric_families(text))
    names = {sample.name for family in families for sample in family.samples}
    # This hub has no target of shipping; a family that has a head alone would have samples of that name.
    names |= {family.name for family in families if not family.samples and family.type == "gauge"}
    asked = {name for expression in expressions() for name in re.findall(r"\b(?:mcphub|process)_[a-z_]+", expression)}
    assert {"mcphub_calls_total", "mcphub_call_duration_seconds_bucket", "mcphub_traces_failing"} <= asked
    # Of a hub on a server's database there is no disk to tell of; of this one there is.
    assert asked <= names
    labels = {"worker", "method", "tool", "connection", "outcome", "code", "le", "state", "target"}
    codes = {
        code for each in expressions() for found in re.findall(r'code=~"([^"]+)"', each) for code in found.split("|")
    }
    assert codes
    assert codes <= INTERNAL_CODES
    for expression in expressions():
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression)) <= {*labels, "job"}


def expressions() -> list[str]:
    """Return what the files under deploy/ ask Prometheus for."""
    deploy = Path(__file__).parents[2] / "deploy"
    board = json.loads((deploy / "grafana" / "mcphub.json").read_text())
    rules = yaml.safe_load((deploy / "prometheus" / "alerts.yaml").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    return found + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def test_metrics_have_a_port_of_their_own_with_the_probes_and_nothing_else(hub: Hub, speaker: Speaker) -> None:
    own = f"http://127.0.0.1:{hub.environment['MCPHUB_METRICS_PORT']}"
    statuses = [
        httpx2.get(f"{own}{path}", timeout=PATIENCE_SECONDS).status_code for path in ("/metrics", "/live", "/ready")
    ]
    assert statuses == [200, 200, 200]
    assert [
        httpx2.get(f"{own}{path}", timeout=PATIENCE_SECONDS).status_code for path in ("/mcp", "/admin/", "/api/tools/")
    ] == [404] * 3
    assert httpx2.post(f"{own}/metrics", timeout=PATIENCE_SECONDS).status_code == 405
    key = {"authorization": f"Bearer {hub.key}"}
    assert httpx2.get(f"{hub.url}/metrics", headers=key, timeout=PATIENCE_SECONDS).status_code == 404
    assert httpx2.get(f"{hub.url}/ready", timeout=PATIENCE_SECONDS).status_code == 200


def test_calls_are_counted_by_names_of_the_catalogue_and_what_strangers_ask_for_is_other(
    hub: Hub, speaker: Speaker
) -> None:
    speaker.modern_call("bare.echo", {})
    for number in range(5):
        speaker.modern_call(f"made-up-{number}", {})
    text = httpx2.get(
        f"http://127.0.0.1:{hub.environment['MCPHUB_METRICS_PORT']}/metrics", timeout=PATIENCE_SECONDS
    ).text
    counted = [
        sample.labels
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "mcphub_calls_total"
    ]
    assert {"bare.echo", "other"} <= {each["tool"] for each in counted}
    assert "made-up" not in text
    assert any((each["tool"], each["connection"], each["outcome"]) == ("bare.echo", "bare", "ok") for each in counted)
