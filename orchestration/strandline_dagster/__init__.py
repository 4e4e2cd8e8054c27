"""WHEN: the only package that imports dagster."""
