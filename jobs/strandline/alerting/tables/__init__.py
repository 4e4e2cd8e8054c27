"""The tables of alerts, a module for each layer; every project that declares sources for rules has these three."""
