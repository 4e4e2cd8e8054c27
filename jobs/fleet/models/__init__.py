"""Models of tables; one module a model, found by its ``MODEL`` as tables are found."""
