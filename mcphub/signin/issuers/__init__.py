"""Issuers of others, such as an organisation's identity provider, whose access tokens the hub takes."""
