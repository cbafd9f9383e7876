"""Ways to tokens besides codes: devices without a browser, services, and identity assertions of an organisation."""
