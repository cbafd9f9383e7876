"""How Schemathesis spells large numbers, and why. Named by SCHEMATHESIS_HOOKS in rest_contract.py.

The hub refuses whole numbers beyond 64 bits, and takes floating ones of any size. JSON Schema cannot tell `1e30` from
its digits, so the schema bounds both. What it calls too large is sent in digits: then the hub must refuse it.
"""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if isinstance(case.body, (dict, list)):  # to set a body that is none would make it one
        case.body = _in_digits(case.body)


def _in_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_digits(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_in_digits(each) for each in value]
    return int(value) if isinstance(value, float) and not -(2**63) <= value < 2**64 else value
