"""What a deployment needs, gathered into a folder."""
