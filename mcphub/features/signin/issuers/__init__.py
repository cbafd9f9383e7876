"""External issuers, such as an organisation's identity provider, with access tokens that the hub accepts."""
