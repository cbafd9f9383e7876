"""API keys: who may make which, and when the hub warns of their end. The rows are `sessions_app.models.ApiKey`."""
