"""The common part of features' policies: the tools that one concerns, and the approval that it may demand."""
