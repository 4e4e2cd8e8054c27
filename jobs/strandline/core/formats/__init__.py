"""What bytes mean: JSON, CSV, Avro and Protobuf, with schemas that change, and what each refuses.

Begin with parse.
"""
