"""Reference-grounded support labels by LLM judges: the code that the notebooks share."""
