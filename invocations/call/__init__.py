"""The parts of a running call: its deadline, its tool's questions, its refusal, the answer to a repeat."""
