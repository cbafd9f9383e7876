"""People and groups by SCIM 2.0 (RFC 7643, RFC 7644): a directory makes, changes and disables accounts."""
