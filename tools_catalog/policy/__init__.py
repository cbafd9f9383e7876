"""Which rules decide about a call, and what each says."""
