"""Notifications: notices about pending matters, live in the console and outside by webhook, e-mail and chat."""
