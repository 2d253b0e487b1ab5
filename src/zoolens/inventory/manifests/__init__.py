"""What a model is: the schema, the YAML files, and where a model's files lie."""
