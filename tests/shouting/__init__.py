"""An operator's app with a kind of tool of its own."""
