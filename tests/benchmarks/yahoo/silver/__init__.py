"""The silver tables of the Yahoo streaming benchmark."""
