"""What a study's trials tell: tables, collapsed predictors, and where a published study does not hold."""
