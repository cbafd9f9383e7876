"""Free names: numbered where they are taken, never longer than their field."""

from __future__ import annotations

import pytest

from sessions_app.kit.names import free_name


@pytest.mark.parametrize(
    ("wanted", "taken", "most", "free"),
    [
        ("shop", set(), 8, "shop"),
        ("shop", {"shop"}, 8, "shop-2"),
        ("shop", {"shop", "shop-2"}, 8, "shop-3"),
        ("bookshop", {"bookshop"}, 8, "booksh-2"),
        ("bookshops", set(), 8, "bookshop"),
        ("bookshop", {"bookshop", *(f"booksh-{number}" for number in range(2, 10))}, 8, "books-10"),
    ],
)
def test_a_free_name_fits_its_field(wanted: str, taken: set[str], most: int, free: str) -> None:
    assert free_name(wanted, taken.__contains__, most) == free
