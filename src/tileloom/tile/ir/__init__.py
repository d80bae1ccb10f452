"""The SSA form: types, attributes, operations, text in and out, rewriting."""
