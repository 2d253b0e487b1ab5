"""What a study's trials tell: tables and collapsed predictors."""
