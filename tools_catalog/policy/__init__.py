"""What policies of features share: the tools that one concerns, and the approval that it may demand."""
