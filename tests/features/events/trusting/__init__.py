"""An operator's app that lets a hub trust the certificate of a receiver on loopback."""
