"""What live optimizers do: rules, constants, moments, and rules that one framework has and another lacks."""
