"""The pages on which servers become connections: pasted, chosen of the known ones, found in a registry; then tried."""
