"""Telling people: notices of what needs a person, live in the console and outside by webhook, e-mail and chat."""
