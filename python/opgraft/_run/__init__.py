"""Sessions: preparing a model, loading packs, and converting inputs and outputs."""
