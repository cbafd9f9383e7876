"""Additions for the hub's own project alone: Django's commands as its developers want them.

A host project does not install this application, so its `makemessages` and `migrate` stay Django's.
"""
