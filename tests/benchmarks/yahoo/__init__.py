"""The Yahoo streaming benchmark as a user of the engine writes it: views of advertisements, counted by campaign and ten seconds."""
