"""Kafka to bronze to silver to gold, in every mode, and out again; what computes the past again is in repair.

Begin with runner, then ingest for bronze, plan, query, batch.batch_writer, batch.governor for the tables above, feed_query for
what goes from Kafka to Kafka; publisher for changes that leave: publications has what is declared, targets each kind of target.
"""
