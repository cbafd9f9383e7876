"""The features of the hub, one folder each; see CONTRIBUTING.md, Add a feature."""
