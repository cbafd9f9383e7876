from tests.wire.conftest import pair

__all__ = ["pair"]
