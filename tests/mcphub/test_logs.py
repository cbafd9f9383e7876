"""What a line of the log looks like."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import BadRequest, DisallowedHost, PermissionDenied
from django.core.handlers.exception import response_for_exception
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils.log import log_response

from invocations.redaction.policy import RedactionPolicy
from invocations.redaction.records import of_call as of_call_now
from mcphub.process.logs import FewOfAKind, formatter


def a_record(**more: Any) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "mcphub", "levelname": "WARNING", "msg": "%s is \u00fc", "args": ("it",), "created": 0.25, **more}
    )


def test_a_line_of_json_holds_event_logger_level_time_and_what_was_given() -> None:
    line = formatter("json").format(a_record(tool="house.weather", seconds=1.5, reason=ValueError("no")))
    assert "\n" not in line
    assert json.loads(line) == {
        "event": "it is \u00fc",
        "logger": "mcphub",
        "level": "warning",
        "tool": "house.weather",
        "seconds": 1.5,
        "reason": "ValueError('no')",
        "timestamp": "1970-01-01T00:00:00.250000Z",
    }


def test_a_line_for_a_terminal_says_the_same_in_columns() -> None:
    line = formatter("console").format(a_record(tool="house.weather"))
    assert line == (
        "1970-01-01T00:00:00.250000Z [warning  ] it is \u00fc                        [mcphub] tool='house.weather'"
    )


@pytest.mark.parametrize("style", ["json", "console"])
def test_of_a_request_the_path_is_said_and_not_the_query(style: Any) -> None:
    request = RequestFactory().get("/admin/", {"token": "s3cret"})
    line = formatter(style).format(a_record(request=request, status_code=404))
    assert "/admin/" in line
    assert "s3cret" not in line


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_is_part_of_the_record(style: Any) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        formatted = formatter(style).format(a_record(exc_info=sys.exc_info()))
    said = json.loads(formatted)["exception"] if style == "json" else formatted.split("\n", 1)[1]
    assert said.startswith("Traceback (most recent call last):")
    assert said.endswith("ValueError: no")


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("refusal", [PermissionDenied("no"), BadRequest("no"), DisallowedHost("no")])
def test_a_refused_request_is_one_line(style: Any, refusal: Exception, caplog: pytest.LogCaptureFixture) -> None:
    request = RequestFactory().get("/admin/")
    request.user = AnonymousUser()
    with caplog.at_level(logging.WARNING):
        answer = response_for_exception(request, refusal)
    assert answer.status_code in (400, 403)
    [record] = caplog.records
    assert record.exc_info
    line = formatter(style).format(record)
    assert "\n" not in line
    assert len(line) < 400


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_failed_request_has_its_traceback(style: Any, caplog: pytest.LogCaptureFixture) -> None:
    request = RequestFactory().get("/admin/")
    try:
        raise ValueError("no")
    except ValueError as error:
        log_response("Internal Server Error", response=HttpResponse(status=500), request=request, exception=error)
    [record] = caplog.records
    assert "Traceback" in formatter(style).format(record)


@pytest.mark.parametrize("style", ["json", "console"])
def test_secrets_of_a_known_form_and_those_of_the_call_under_way_are_not_logged(style: Any) -> None:
    formed, marked = "ghp_" + "a1" * 18, "hunter-in-the-wood"
    of_call = RedactionPolicy(keys=[("k", b"k" * 32)]).hidden()
    of_call.seek([marked])
    token = of_call_now.set(of_call)
    try:
        raise ValueError(f"no {formed} for {marked}")
    except ValueError as error:
        record = a_record(exc_info=sys.exc_info(), args=(f"{formed} {marked}",), told=[formed, marked], cause=error)
        line = formatter(style).format(record)
    finally:
        of_call_now.reset(token)
    assert (formed in line, marked in line, line.count("redacted:") >= 6) == (False, False, True)
    assert style == "console" or json.loads(line)["told"][0].startswith("redacted:")
    assert marked in formatter(style).format(a_record(args=(marked,)))


def test_of_a_kind_of_warning_few_pass_in_a_minute_and_the_next_minute_tells_of_the_rest() -> None:
    moment = [0.0]
    few = FewOfAKind(most=2, now=lambda: moment[0])

    def passes(text: str = "Bad %s", level: int = logging.WARNING) -> logging.LogRecord | None:
        record = a_record(msg=text, levelno=level)
        return record if few.filter(record) else None

    assert [passes() is not None for _ in range(5)] == [True, True, False, False, False]
    assert passes("Worse %s") is not None
    assert all(passes(level=logging.INFO) is not None for _ in range(5))
    moment[0] = 60.0
    first, second = passes(), passes()
    assert first is not None
    assert vars(first)["left_out"] == 3
    assert second is not None
    assert "left_out" not in vars(second)
    assert passes() is None
    moment[0] = 120.0
    later, other = passes(), passes("Worse %s")
    assert later is not None
    assert vars(later)["left_out"] == 1
    assert other is not None
    assert "left_out" not in vars(other)
