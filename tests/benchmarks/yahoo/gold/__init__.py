"""The gold tables of the Yahoo streaming benchmark."""
