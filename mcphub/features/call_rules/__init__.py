"""Call rules: conditions on calls, and what they come to: a call is denied, allowed, or waits for approval."""
