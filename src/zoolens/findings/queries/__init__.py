"""The question "find me a model like X within this budget": its language, its plan, its answer."""
