"""API keys: permissions to create them, and warnings before their end. The rows are `sessions_app.models.ApiKey`."""
