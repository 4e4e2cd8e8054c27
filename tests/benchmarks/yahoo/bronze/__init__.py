"""The bronze tables of the Yahoo streaming benchmark."""
