"""What a call under way is made of: its deadline, what its tool may ask, its refusal, the answer to its repeat."""
