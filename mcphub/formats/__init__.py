"""How dates and times are written, by language: one way on all pages (Django's `FORMAT_MODULE_PATH`)."""
