"""Alert rules: patterns that look at one event. Begin with alert_rule."""
