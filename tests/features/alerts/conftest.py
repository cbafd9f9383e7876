from tests.mcphub.admin.conftest import log_in

__all__ = ["log_in"]
