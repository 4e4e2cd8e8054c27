"""As received: one module a Kafka topic."""
