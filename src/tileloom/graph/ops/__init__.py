"""Building graphs: one function for each operator, under array-API names where there is one."""
