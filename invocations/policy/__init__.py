"""What the rules about calls would have said of calls on record."""
